package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"sync"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
)

//go:embed *.html
var sources embed.FS

//go:embed assets
var assets embed.FS

// shared are the templates that several pages use, with the functions of all pages. Templates
// are parsed at the first use, because every pass is a start of the same program.
var shared = sync.OnceValue(func() *template.Template {
	t := template.New("").Funcs(functions())
	return template.Must(t.ParseFS(sources, "actions.html", "shared.html"))
})

// functions are the functions of all templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"visible":      text.Visible, // text of agents and trackers without control characters
		"lines":        text.VisibleLines,
		"diff":         changeBlocks,
		"lineBody":     newDiffLines,
		"icon":         icon,
		"when":         when,
		"took":         took,
		"elapsed":      elapsed,
		"seconds":      seconds,
		"count":        text.Count,
		"plural":       text.Plural,
		"amount":       amount,
		"money":        money,
		"mostText":     func() int { return reconcile.MaxMessage },
		"command":      command,
		"marked":       marked,
		"said":         markdownLine,
		"words":        inWords,
		"sentence":     func(s string) string { return sentence(text.Visible(s)) },
		"issueAddress": IssueAddress,
		"pullWords":    func(address string) reconcile.PullWords { return reconcile.PullWordsOf(address) },
	}
}

// parse parses a template beside the shared ones, with functions of its own. Without a file it
// returns the shared ones.
func parse(functions template.FuncMap, files ...string) *template.Template {
	t := template.Must(shared().Clone()).Funcs(functions)
	if len(files) == 0 {
		return t
	}
	return template.Must(t.ParseFS(sources, files...))
}

// fragments draw the parts that no page's template contains.
var fragments = sync.OnceValue(func() *template.Template { return parse(nil) })

// draw executes a template of ours with values of ours: an error is a mistake in either, which
// the tests find.
func draw(t *template.Template, name string, data any) []byte {
	var out bytes.Buffer
	if err := t.ExecuteTemplate(&out, name, data); err != nil {
		panic(fmt.Errorf("page %s: %w", name, err))
	}
	return out.Bytes()
}

// markup is draw, with a result that another template can contain.
func markup(t *template.Template, name string, data any) template.HTML {
	return template.HTML(draw(t, name, data)) //nolint:gosec // it is the output of html/template
}

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
