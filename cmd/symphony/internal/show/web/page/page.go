// Package page draws the read model as HTML. It reads nothing: a page is a function of the
// values of package view.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"strings"
	"sync"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

//go:embed *.html
var sources embed.FS

//go:embed assets
var assets embed.FS

// templates are parsed at the first use, because every pass is a start of the same program.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions()).ParseFS(sources, "*.html"))
})

// Assets are the files that pages refer to, below /assets.
func Assets() fs.FS {
	files, _ := fs.Sub(assets, "assets") // the directory exists
	return files
}

// AssetTag is the ETag of all assets: it changes with each of them, and with the templates.
var AssetTag = sync.OnceValue(func() string {
	hash := sha256.New()
	for _, files := range []embed.FS{sources, assets} {
		// they are part of the program
		_ = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, _ error) error {
			data, _ := files.ReadFile(path)
			fmt.Fprintln(hash, path, len(data))
			hash.Write(data)
			return nil
		})
	}
	return fmt.Sprintf(`"%x"`, hash.Sum(nil)[:8])
})

// AssetNames are the names of the assets.
func AssetNames() []string {
	names, _ := fs.Glob(Assets(), "*.*") // the pattern is valid
	return names
}

// Page is a page without its frame: what changes while it is open.
type Page struct {
	Title    string
	Requests int           // how many requests wait for a person, in all projects
	Main     template.HTML // the content of the element main
	MayAct   bool          // the reader has the token
	Notice   *Notice       // nil unless the page follows a command

	Query  string  // of the search, which each page has
	Path   string  // of the page, with its query
	Theme  string  // light or dark; empty for that of the reader's system
	Live   bool    // it changes while it is open
	Alerts *Alerts // nil for a page that shows nothing of the projects
}

// Heading is what the tab of a browser shows.
func (p Page) Heading() string {
	heading := text.Visible(p.Title) + " · symphony"
	if p.alarmed() {
		heading = "⚠ " + text.Visible(p.Alerts.Alarms[0].Brief()) + " · " + heading
	}
	if p.Requests > 0 {
		return fmt.Sprintf("(%d) %s", p.Requests, heading)
	}
	return heading
}

// Version changes with the program and with what the reader may do. An open page of another
// version loads itself again.
func (p Page) Version() string {
	version := strings.Trim(AssetTag(), `"`)
	if p.MayAct {
		return version + "-acting"
	}
	return version
}

// Changes are what the script of an open page applies to it.
type Changes struct {
	Version string       `json:"version"`
	Title   string       `json:"title"`
	Icon    template.URL `json:"icon"`
	Main    string       `json:"main"`
	Alarm   string       `json:"alarm"`
	News    []News       `json:"news"`
}

// Changes returns the present values.
func (p Page) Changes() Changes {
	c := Changes{
		Version: p.Version(),
		Title:   p.Heading(),
		Icon:    p.Icon(),
		Main:    string(p.Main),
		Alarm:   string(p.Strip()),
		News:    []News{},
	}
	if p.Alerts != nil {
		c.News = p.Alerts.News
	}
	return c
}

// Document is the page as HTML.
func (p Page) Document() []byte { return draw("layout.html", p) }

// draw executes a template of ours with values of ours: an error is a mistake in one of them,
// which the tests find.
func draw(name string, data any) []byte {
	var out bytes.Buffer
	if err := templates().ExecuteTemplate(&out, name, data); err != nil {
		panic(fmt.Errorf("page %s: %w", name, err))
	}
	return out.Bytes()
}

func mainOf(name string, data any) template.HTML {
	return template.HTML(draw(name, data)) //nolint:gosec // it is the output of html/template
}

// Problem is the page of an error. With login it has the form that takes the token.
func Problem(e *reconcile.Error, login bool) Page {
	return Page{Title: e.Message, Main: mainOf("problem.html", struct {
		Error *reconcile.Error
		Login bool
	}{e, login})}
}

// Login is the page that takes the token.
func Login() Page { return Page{Title: "Token", Main: mainOf("login.html", nil)} }
