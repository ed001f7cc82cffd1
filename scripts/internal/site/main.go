// Command site renders the documentation to static HTML: site SOURCE DIRECTORY. Its test
// checks every link.
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed page.html
var pageTemplate string

type chapter struct {
	Name  string
	Files []string
}

// chapters are the pages in the order of the navigation.
var chapters = []chapter{
	{"Begin", []string{"README.md", "docs/README.md", "docs/tutorial.md", "docs/install.md", "docs/faq.md"}},
	{
		"Set up",
		[]string{
			"docs/workflow.md",
			"docs/trackers.md",
			"docs/repository.md",
			"docs/scheduling.md",
			"docs/agents.md",
			"docs/hosts.md",
			"docs/team.md",
		},
	},
	{
		"Use",
		[]string{
			"docs/writing.md",
			"docs/review.md",
			"docs/requests.md",
			"docs/questions.md",
			"docs/web.md",
			"docs/mcp.md",
			"docs/recipes.md",
			"docs/security.md",
		},
	},
	{"Operate", []string{"docs/operations.md", "docs/failures.md", "docs/monitoring.md"}},
	{
		"Look up",
		[]string{
			"docs/commands.md",
			"docs/life.md",
			"docs/errors.md",
			"docs/json.md",
			"docs/api.md",
			"docs/costs.md",
			"docs/specification.md",
		},
	},
	{"Develop", []string{"docs/architecture.md", "CONTRIBUTING.md", "CHANGELOG.md"}},
}

// page is a document. File and Name are the paths of the document below the source and of the
// page below the site, with slashes.
type page struct {
	File, Name, Title string
	Root              string // leads from the page to the top of the site
	Headings          []heading
	Body              template.HTML
}

type heading struct {
	Level    int
	ID, Text string
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site SOURCE DIRECTORY")
		os.Exit(2)
	}
	if err := render(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// render writes the pages of source to the directory out, which must be new, and copies the
// files to which they link.
func render(source, out string) error {
	pages := map[string]*page{}
	for _, c := range chapters {
		for _, file := range c.Files {
			p, err := read(source, file)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			pages[file] = p
		}
	}
	if err := copyLinked(source, out); err != nil {
		return err
	}
	view, err := template.New("").Parse(pageTemplate)
	if err != nil {
		return err
	}
	for _, p := range pages {
		var whole bytes.Buffer
		err := view.Execute(&whole, map[string]any{
			"Page":     p,
			"Pages":    pages,
			"Chapters": chapters,
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
		if err := os.WriteFile(filepath.Join(out, p.Name), whole.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copyLinked copies the files to which pages link: pictures, examples and the licence.
func copyLinked(source, out string) error {
	for _, dir := range []string{"docs", "examples"} {
		if err := os.CopyFS(filepath.Join(out, dir), os.DirFS(filepath.Join(source, dir))); err != nil {
			return err
		}
	}
	license, err := os.ReadFile(filepath.Join(source, "LICENSE"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "LICENSE"), license, 0o644)
}

// read parses and renders a document, whose first heading is its title. Links to documents lead
// to their pages.
func read(root, file string) (*page, error) {
	p := &page{
		File: file,
		Name: htmlName.Replace(file),
		Root: strings.Repeat("../", strings.Count(file, "/")),
	}
	source, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	markdown := goldmark.New(
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	)
	tree := markdown.Parser().Parse(text.NewReader(source))
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			id, _ := n.AttributeString("id") // the parser sets it
			p.Headings = append(p.Headings, heading{
				n.Level,
				string(id.([]byte)),
				strings.ReplaceAll(string(n.Lines().Value(source)), "`", ""),
			})
		case *ast.Link:
			to := string(n.Destination)
			if !strings.Contains(to, "://") {
				n.Destination = []byte(htmlName.Replace(to))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	if len(p.Headings) == 0 {
		return nil, errors.New("it has no heading")
	}
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, tree); err != nil {
		return nil, err
	}
	p.Title = p.Headings[0].Text
	p.Body = template.HTML(body.String()) //nolint:gosec // our own documents
	return p, nil
}

// htmlName turns the name of a document into the name of its page.
var htmlName = strings.NewReplacer("README.md", "index.html", ".md", ".html")
