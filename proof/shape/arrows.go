package main

import (
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// arrows says which rooms use which others: files of a package, or packages.
type arrows map[string]map[string]bool

func (a arrows) add(from, to string) {
	if from == to {
		return
	}
	if a[from] == nil {
		a[from] = map[string]bool{}
	}
	a[from][to] = true
}

func (a arrows) count() (n int) {
	for _, to := range a {
		n += len(to)
	}
	return n
}

// between returns which files of a package use names, fields and methods that
// others declare.
func (t *tree) between(p *pkg) arrows {
	all := arrows{}
	for id, o := range p.info.Uses {
		if o.Pkg() == p.types && (o.Parent() == p.types.Scope() || isMember(o)) {
			all.add(t.file(id.Pos()), t.file(o.Pos()))
		}
	}
	return all
}

func isMember(o types.Object) bool {
	switch o := o.(type) {
	case *types.Var:
		return o.IsField()
	case *types.Func:
		return o.Signature().Recv() != nil
	}
	return false
}

// imports returns which folders of the tree import which: the packages of one
// top folder are one room.
func (t *tree) imports() arrows {
	folder := map[string]string{}
	for _, p := range t.packages {
		folder[p.path] = p.dir
	}
	all := arrows{}
	for _, p := range t.packages {
		for _, f := range p.files {
			for _, i := range f.Imports {
				path, _ := strconv.Unquote(i.Path.Value)
				if to, ok := folder[path]; ok {
					all.add(top(p.dir), top(to))
				}
			}
		}
	}
	return all
}

// backUp returns how many arrows run back up when the rooms stand above each
// other in an order that leaves few such arrows: that of Eades, Lin and Smyth,
// who take away what nothing uses, what uses nothing, or, where all that is left
// stands in circles, what uses most and is used least.
func (a arrows) backUp() (n int) {
	place := map[string]int{}
	for i, room := range a.order() {
		place[room] = i
	}
	for from, all := range a {
		for to := range all {
			if place[to] < place[from] {
				n++
			}
		}
	}
	return n
}

func (a arrows) order() []string {
	out, in := map[string]int{}, map[string]int{}
	for from, all := range a {
		for to := range all {
			out[from]++
			in[to]++
			in[from], out[to] = in[from]+0, out[to]+0 // both know each room
		}
	}
	var above, below []string
	for len(in) > 0 {
		room := slices.MaxFunc(slices.Sorted(maps.Keys(in)), func(x, y string) int { return rank(out, in, x) - rank(out, in, y) })
		if out[room] == 0 {
			below = append(below, room)
		} else {
			above = append(above, room)
		}
		for to := range a[room] {
			if _, left := in[to]; left {
				in[to]--
			}
		}
		for from := range in {
			if a[from][room] {
				out[from]--
			}
		}
		delete(in, room)
		delete(out, room)
	}
	slices.Reverse(below)
	return append(above, below...)
}

func rank(out, in map[string]int, room string) int {
	if out[room] == 0 || in[room] == 0 {
		return 1 << 20
	}
	return out[room] - in[room]
}

// branchers returns the functions of a package that branch on a kind: they
// compare a value of one of the types of this package or one below it, switch
// over one, or ask one a question that is answered by yes or no.
func (t *tree) branchers(p *pkg, kinds ...string) (functions, files int) {
	isKind := func(e ast.Expr) bool {
		tv := p.info.Types[e]
		if tv.Type == nil || tv.IsNil() {
			return false
		}
		of := tv.Type
		if ptr, ok := of.(*types.Pointer); ok {
			of = ptr.Elem()
		}
		named, ok := of.(*types.Named)
		if !ok || named.Obj().Pkg() == nil {
			return false
		}
		inside := strings.HasPrefix(named.Obj().Pkg().Path(), p.types.Path())
		return inside && slices.Contains(kinds, named.Obj().Name())
	}
	branches := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			return isComparison(n.Op) && (isKind(n.X) || isKind(n.Y))
		case *ast.SwitchStmt:
			return n.Tag != nil && isKind(n.Tag)
		case *ast.TypeAssertExpr:
			return isKind(n.X)
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			return ok && isKind(s.X) && isBool(p.info.Types[n].Type)
		}
		return false
	}
	in := map[string]bool{}
	for _, f := range p.files {
		for _, d := range f.Decls {
			found := false
			ast.Inspect(d, func(n ast.Node) bool {
				found = found || branches(n)
				return !found
			})
			if found {
				functions++
				in[t.file(f.Pos())] = true
			}
		}
	}
	return functions, len(in)
}
