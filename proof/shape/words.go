package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// wordPattern matches a word of a comment or a document.
var wordPattern = regexp.MustCompile(`[A-Za-z][A-Za-z'’-]*`)

// subordinate are the words that begin a condition or another clause within a
// sentence.
var subordinate = strings.Fields("which that unless if while when whether because until although though whose")

// conditions returns how many words the comments of packages have, and how many
// of them begin a clause within a sentence.
func conditions(packages ...*pkg) (words, clauses int) {
	for _, p := range packages {
		for _, f := range p.files {
			for _, c := range f.Comments {
				for _, w := range wordPattern.FindAllString(c.Text(), -1) {
					words++
					if slices.Contains(subordinate, strings.ToLower(w)) {
						clauses++
					}
				}
			}
		}
	}
	return words, clauses
}

// operators returns how many lines of code packages have, and how many && and ||
// stand in them.
func (t *tree) operators(packages ...*pkg) (lines, found int) {
	for _, p := range packages {
		for _, f := range p.files {
			lines += t.codeLines(f)
			ast.Inspect(f, func(n ast.Node) bool {
				if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
					found++
				}
				return true
			})
		}
	}
	return lines, found
}
