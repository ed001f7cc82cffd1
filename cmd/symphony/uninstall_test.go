package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// treeCmd notes all that is in the home and in the folder for temporary files, with modes and contents: tree FILE
func treeCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: tree FILE")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Join(treeOf(ts), "\n")+"\n"), 0o600))
}

func treeOf(ts *testscript.TestScript) []string {
	var list []string
	for _, root := range []string{"HOME", "TMPDIR"} {
		dir := ts.Getenv(root)
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || path == dir {
				return err
			}
			line, err := treeLine(path, d)
			list = append(list, root+strings.TrimPrefix(line, dir))
			return err
		})
		if !os.IsNotExist(err) {
			ts.Check(err)
		}
	}
	slices.Sort(list)
	return list
}

func treeLine(path string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	if err != nil || !d.Type().IsRegular() {
		return fmt.Sprintf("%s\t%s", path, d.Type()), err
	}
	data, err := os.ReadFile(path)
	return fmt.Sprintf("%s\t%s\t%x", path, info.Mode(), sha256.Sum256(data)), err
}

// listedLeft are the paths that the document lists as left, in backquotes at the beginning of an entry. One that ends in a
// slash is left with whatever is in it, other folders are left empty.
var listedLeft = regexp.MustCompile("(?m)^- `~/([^`]+)`")

// leftCmd compares with the tree of before: nothing is changed or gone, and what is new is exactly what docs/questions.md
// lists as left: left FILE
func leftCmd(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 || neg {
		ts.Fatalf("usage: left FILE")
	}
	text, err := readQuestions()
	ts.Check(err)
	_, section, _ := strings.Cut(text, "\n### Remove symphony.\n")
	left := map[string]bool{} // whether it was met
	for _, m := range listedLeft.FindAllStringSubmatch(section, -1) {
		left[m[1]] = false
	}
	before, after := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n"), treeOf(ts)
	var wrong []string
	for _, line := range before {
		if !slices.Contains(after, line) {
			wrong = append(wrong, "changed or gone: "+line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) && !isListed(left, line) {
			wrong = append(wrong, "left and not listed: "+line)
		}
	}
	for path, met := range left {
		if !met {
			wrong = append(wrong, "listed and not left: "+path)
		}
	}
	if len(wrong) > 0 {
		ts.Fatalf("%s", strings.Join(wrong, "\n"))
	}
}

// isListed reports whether a line of the tree is one of what may be left, and notes that it was.
func isListed(left map[string]bool, line string) bool {
	path, _, _ := strings.Cut(strings.TrimPrefix(line, "HOME/"), "\t")
	for listed := range left {
		if path == strings.TrimSuffix(listed, "/") || strings.HasSuffix(listed, "/") && strings.HasPrefix(path, listed) {
			left[listed] = true
			return true
		}
	}
	return false
}
