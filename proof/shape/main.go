// Shape prints a table of what makes a tree hard to hold in one's head, and what
// each figure is to be: arrows between files and folders that run back up,
// methods and fields of the largest types, functions that branch on the kind of
// a lock, conditions in comments and in code, lines, names and documents.
//
//	go run ./proof/shape                     of this tree
//	go run ./proof/shape -walk               and what a caller visits in one operation, on five servers
//	go run ./proof/shape -root ../other      of another checkout
//
// An arrow is that one file uses what another declares. The order of the rooms
// is the one of arrows.backUp, so compare a figure with one that this command
// printed. A struct's fields are counted flat. It judges nothing: a part that
// became shorter and harder to read has failed.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", ".", "the root of the tree")
	walks := flag.Bool("walk", false, "walk through a few operations too, on five servers")
	flag.Parse()
	rows, err := measure(*root)
	if err == nil && *walks {
		var more []row
		more, err = walk(*root)
		rows = append(rows, more...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	print(rows)
}
