package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// buildCommands are those of the scripts that build in the agent's sandbox.
func buildCommands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){"registry": registryCmd, "warm-go": warmGoCmd}
}

// warmGoCmd sets $WARM to a cache of go's builds that holds what the test of any module needs of go's own packages.
func warmGoCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: warm-go")
	}
	dir, err := warmGo()
	ts.Check(err)
	ts.Setenv("WARM", dir)
}

// warmGo makes the cache, once on a machine: go sees for itself whether anything is missing.
var warmGo = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	module, err := os.MkdirTemp("", "symphony-warm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(module)
	for name, text := range map[string]string{
		"go.mod": "module example.org/warm\n\ngo 1.21\n", "main.go": "package main\n\nfunc main() { println() }\n",
		"main_test.go": "package main\n\nimport \"testing\"\n\nfunc Test(*testing.T) { main() }\n",
	} {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(cache, "symphony-tests", "go-build")
	cmd := exec.Command("go", "test", ".")
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOCACHE="+dir, "GOFLAGS=", "GOTOOLCHAIN=local", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, out)
	}
	return dir, nil
})

// registryCmd serves one package, dep 1.0.0, on the loopback interface, as the registries of go ($REGISTRY/go), npm
// ($REGISTRY/npm/) and pip ($REGISTRY/pip/) do, until the script's end. $TOOLS is a PATH with those tools that this
// machine has: agents have that of their login shell. registry down refuses all that is asked from then on.
func registryCmd(ts *testscript.TestScript, neg bool, args []string) {
	down := slices.Equal(args, []string{"down"})
	if neg || len(args) > 0 && !down {
		ts.Fatalf("usage: registry [down]")
	}
	set := stageOf(ts)
	if down {
		set.registry.Close()
		return
	}
	mux := http.NewServeMux()
	set.registry = httptest.NewServer(mux)
	ts.Defer(set.registry.Close)
	serve := func(path, kind string, data []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "max-age=600") // else pip keeps nothing
			_, _ = w.Write(data)                           // a client that is gone needs none
		})
	}
	serveGo(ts, serve)
	serveNpm(ts, serve, set.registry.URL)
	servePip(ts, serve)
	ts.Setenv("REGISTRY", set.registry.URL)
	ts.Setenv("TOOLS", strings.Join(toolDirs(), string(filepath.ListSeparator)))
}

// toolDirs are where the tools are themselves, and not those that look for them in a home.
func toolDirs() (dirs []string) {
	for _, argv := range [][]string{
		{"go", "env", "GOROOT"},
		{"python3", "-c", "import sys, os; print(os.path.dirname(os.path.dirname(sys.executable)))"},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).Output(); err == nil { // ends by itself
			dirs = append(dirs, filepath.Join(strings.TrimSpace(string(out)), "bin"))
		}
	}
	for _, tool := range []string{"node", "npm"} {
		if path, err := exec.LookPath(tool); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	return dirs
}

// serveFunc has data served at a path.
type serveFunc func(path, kind string, data []byte)

func serveGo(ts *testscript.TestScript, serve serveFunc) {
	const at, module = "/go/example.org/dep/@v/", "module example.org/dep\n\ngo 1.21\n"
	serve(at+"list", "text/plain", []byte("v1.0.0\n"))
	serve(at+"v1.0.0.info", "application/json", []byte(`{"Version":"v1.0.0"}`))
	serve(at+"v1.0.0.mod", "text/plain", []byte(module))
	serve(at+"v1.0.0.zip", "application/zip", zipped(ts, "example.org/dep@v1.0.0/go.mod", module, "example.org/dep@v1.0.0/dep.go", "package dep\n\n// Word is dep.\nconst Word = \"dep\"\n"))
}

func serveNpm(ts *testscript.TestScript, serve serveFunc, url string) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	archive := tar.NewWriter(z)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"dep","version":"1.0.0","main":"dep.js"}`,
		"package/dep.js":       `module.exports = "dep"`,
	} {
		ts.Check(archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := archive.Write([]byte(text))
		ts.Check(err)
	}
	ts.Check(archive.Close())
	ts.Check(z.Close())
	sum := sha512.Sum512(packed.Bytes())
	document, err := json.Marshal(map[string]any{
		"name": "dep", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{
			"name": "dep", "version": "1.0.0",
			"dist": map[string]string{
				"tarball": url + "/npm/-/dep-1.0.0.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			},
		}},
	})
	ts.Check(err)
	serve("/npm/dep", "application/json", document)
	serve("/npm/-/dep-1.0.0.tgz", "application/octet-stream", packed.Bytes())
}

func servePip(ts *testscript.TestScript, serve serveFunc) {
	const wheel, info = "dep-1.0.0-py3-none-any.whl", "dep-1.0.0.dist-info/"
	serve("/pip/dep/", "text/html", []byte(`<a href="`+wheel+`">`+wheel+`</a>`))
	serve("/pip/dep/"+wheel, "application/zip", zipped(ts,
		"dep.py", "word = 'dep'\n",
		info+"METADATA", "Metadata-Version: 2.1\nName: dep\nVersion: 1.0.0\n",
		info+"WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info+"RECORD", "dep.py,,\n"+info+"METADATA,,\n"+info+"WHEEL,,\n"+info+"RECORD,,\n",
	))
}

// zipped packs files: name, text, name, text…
func zipped(ts *testscript.TestScript, files ...string) []byte {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for pair := range slices.Chunk(files, 2) {
		w, err := archive.Create(pair[0])
		ts.Check(err)
		_, err = w.Write([]byte(pair[1]))
		ts.Check(err)
	}
	ts.Check(archive.Close())
	return packed.Bytes()
}
