package main

import (
	"go/ast"
	"go/types"
)

// methods returns how many methods a type has, and in how many files.
func (t *tree) methods(p *pkg, name string) (n, files int) {
	named, ok := p.types.Scope().Lookup(name).Type().(*types.Named)
	if !ok {
		return 0, 0
	}
	in := map[string]bool{}
	for m := range named.Methods() {
		in[t.file(m.Pos())] = true
	}
	return named.NumMethods(), len(in)
}

// fields returns how many fields a struct has as it is written, and flat: the
// fields of a struct of the same package that it embeds count as its own.
func fields(p *pkg, name string) (written, flat int) {
	s, ok := p.types.Scope().Lookup(name).Type().Underlying().(*types.Struct)
	if !ok {
		return 0, 0
	}
	return s.NumFields(), flatFields(p, s)
}

func flatFields(p *pkg, s *types.Struct) (n int) {
	for f := range s.Fields() {
		inner, isStruct := f.Type().Underlying().(*types.Struct)
		named, isNamed := f.Type().(*types.Named)
		if f.Embedded() && isStruct && isNamed && named.Obj().Pkg() == p.types {
			n += flatFields(p, inner)
		} else {
			n++
		}
	}
	return n
}

// exported returns how many names a package exports, with its methods, but
// without the fields of structs.
func exported(p *pkg) (n int) {
	for _, f := range p.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && receiverIsExported(d) {
					n++
				}
			case *ast.GenDecl:
				n += exportedOf(d)
			}
		}
	}
	return n
}

func exportedOf(d *ast.GenDecl) (n int) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				n++
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					n++
				}
			}
		}
	}
	return n
}

func receiverIsExported(d *ast.FuncDecl) bool {
	exported := true
	if d.Recv != nil {
		ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && exported {
				exported = id.IsExported()
				return false
			}
			return true
		})
	}
	return exported
}
