package main

import (
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

// Every document is a page, and each link leads to a file and an anchor of the site, or is the
// address of a page on the web.
func TestSite(t *testing.T) {
	const source = "../../.."
	out := t.TempDir()
	test.OK(t, render(source, out))
	read := func(name string) string { return string(test.Must(os.ReadFile(filepath.Join(out, name)))) }
	pages := 0
	for _, c := range chapters {
		for _, file := range c.Files {
			pages++
			text := read(htmlName.Replace(file))
			links := regexp.MustCompile(` (?:href|src)="([^"]*)"`).FindAllStringSubmatch(text, -1)
			test.Equal(t, file+" links to all pages", len(links) >= 19, true)
			for _, m := range links {
				to, err := url.Parse(html.UnescapeString(m[1]))
				switch {
				case err != nil:
					t.Errorf("%s: %v", file, err)
				case to.Scheme != "" || to.Host != "":
					if to.Scheme != "https" && to.Scheme != "http" || to.Host == "" {
						t.Errorf("%s: %s is not the address of a page", file, to)
					}
				default:
					checkLink(t, out, htmlName.Replace(file), to)
				}
			}
		}
	}
	documents := test.Must(filepath.Glob(source + "/docs/*.md"))
	for _, path := range documents {
		listed := slices.ContainsFunc(
			chapters,
			func(c chapter) bool { return slices.Contains(c.Files, "docs/"+filepath.Base(path)) },
		)
		test.Equal(t, path+" is in a chapter", listed, true)
	}
	test.Equal(t, "pages", pages, len(documents)+3)
	test.Contains(t, "the table of errors", read("docs/errors.html"), "<td><code>")
	if link := regexp.MustCompile(`href="[^:"]*\.md`).FindString(read("index.html")); link != "" {
		t.Errorf("index.html: %s must lead to the page of the document, not to its Markdown", link)
	}
}

func checkLink(t *testing.T, out, from string, to *url.URL) {
	t.Helper()
	target := filepath.Join(out, from)
	if to.Path != "" {
		target = filepath.Join(filepath.Dir(target), to.Path)
	}
	if _, err := os.Stat(target); err != nil || !strings.HasPrefix(target, out) {
		t.Errorf("%s: %s leads to nothing", from, to)
	} else if text, _ := os.ReadFile(target); to.Fragment != "" && !strings.Contains(string(text), `id="`+html.EscapeString(to.Fragment)+`"`) {
		t.Errorf("%s: %s leads to no heading", from, to)
	}
}
