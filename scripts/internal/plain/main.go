// Plain lists places where Go is packed: assignments of several independent values, such as
// "a, b := x, y", errors that cmp.Or sorts out afterwards, and statements in the header of an
// if or switch, such as "if s.base = b; many {" or "if n++; n > 3 {". It reads the Go files of
// a module and exits with 1 if it found any.
//
// A swap, the results of a single call and the header of a for statement are no such
// assignments. An if may set the error that it tests, or variables of its own.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	dir := "."
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	found, err := search(dir)
	for _, line := range found {
		fmt.Println(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

// search returns the packed places in the Go files below a directory, each as "FILE:LINE: "
// and its kind.
func search(dir string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "vendor") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, place := range packed(file) {
			found = append(found, fmt.Sprintf("%s: %s", files.Position(place.pos), place.what))
		}
		return nil
	})
	return found, err
}

// place is a packed statement.
type place struct {
	pos  token.Pos
	what string
}

// packed returns the packed statements of a file.
func packed(file *ast.File) []place {
	var places []place
	inHeader := map[ast.Stmt]bool{} // of a for statement
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ForStmt:
			inHeader[n.Init] = true
			inHeader[n.Post] = true
		case *ast.AssignStmt:
			if len(n.Lhs) > 1 && len(n.Lhs) == len(n.Rhs) && !inHeader[n] && !isSwap(n) {
				places = append(places, place{n.Pos(), "assign one value a line"})
			}
		case *ast.IfStmt:
			if n.Init != nil && changes(n.Init) {
				places = append(places, place{n.Init.Pos(), "write it before the if"})
			}
		case *ast.SwitchStmt:
			if n.Init != nil {
				places = append(places, place{n.Init.Pos(), "write it before the switch"})
			}
		case *ast.CallExpr:
			if types.ExprString(n.Fun) == "cmp.Or" && hasError(n.Args) {
				places = append(places, place{n.Pos(), "return at the first error"})
			}
		}
		return true
	})
	return places
}

// isSwap reports whether the assigned values are the variables themselves in another order.
func isSwap(a *ast.AssignStmt) bool {
	variables := map[string]bool{}
	for _, v := range a.Lhs {
		variables[types.ExprString(v)] = true
	}
	for _, v := range a.Rhs {
		if !variables[types.ExprString(v)] {
			return false
		}
	}
	return true
}

// changes reports whether a statement does something else than to set variables of its own, or
// errors: "n++", "f()" or "s.base = b".
func changes(s ast.Stmt) bool {
	a, ok := s.(*ast.AssignStmt)
	if !ok {
		return true
	}
	return a.Tok != token.DEFINE && !setsOnlyErrors(a)
}

// setsOnlyErrors reports whether an assignment changes nothing but variables with names of
// errors: "err = f()" or "_, readErr = f()".
func setsOnlyErrors(a *ast.AssignStmt) bool {
	for _, v := range a.Lhs {
		if types.ExprString(v) != "_" && !isError(v) {
			return false
		}
	}
	return true
}

func hasError(arguments []ast.Expr) bool { return slices.ContainsFunc(arguments, isError) }

// isError reports whether an expression is a variable with the name of an error: err, errRead
// or readErr.
func isError(e ast.Expr) bool {
	variable, ok := e.(*ast.Ident)
	if !ok {
		return false
	}
	return strings.HasPrefix(variable.Name, "err") || strings.HasSuffix(variable.Name, "Err")
}
