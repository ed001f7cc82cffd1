package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// gitServeCmd serves the repositories in the script's directory, also for pushes, by git's daemon at $GIT_REMOTE on the
// loopback interface, until the script's end: git-serve
//
// The test accepts the connections and starts one daemon for each, so that no port has to be guessed and every daemon is
// waited for.
func gitServeCmd(ts *testscript.TestScript, neg bool, args []string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	d := &gitDaemon{dir: ts.MkAbs("."), env: scriptEnv(ts)}
	d.wg.Go(func() { d.accept(ctx, listener) })
	ts.Setenv("GIT_REMOTE", "git://"+listener.Addr().String())
	ts.Defer(func() {
		listener.Close()
		cancel() // ends the daemons that still have a connection
		d.wg.Wait()
	})
}

type gitDaemon struct {
	dir string
	env []string
	wg  sync.WaitGroup
}

func (d *gitDaemon) accept(ctx context.Context, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // closed: the script is over
		}
		d.wg.Go(func() {
			defer conn.Close()
			d.answer(ctx, conn)
		})
	}
}

// answer runs git's daemon on a connection, like inetd. The client reports a failure of the daemon.
func (d *gitDaemon) answer(ctx context.Context, conn net.Conn) {
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, "git", "daemon", "--inetd", "--export-all", "--enable=receive-pack", "--base-path="+d.dir, d.dir)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = d.dir, d.env, file, file, io.Discard, time.Second
	_ = cmd.Run()
}

// triesCmd writes try.sh, which an agent runs with a list of commands and results from the script. The script compares the
// list with the output: tries
func triesCmd(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs("try.sh"), []byte(made("try.sh")), 0o600))
}

// warmGoCmd sets $WARM to a build cache of go that holds the standard packages a test needs: warm-go
func warmGoCmd(ts *testscript.TestScript, neg bool, args []string) {
	dir, err := warmGo()
	ts.Check(err)
	ts.Setenv("WARM", dir)
}

// warmGo fills the cache. It is kept between test runs; go rebuilds what is missing.
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

// registryCmd serves one package, dep 1.0.0, on the loopback interface until the script's end, as a registry for go
// ($REGISTRY/go), npm ($REGISTRY/npm/) and pip ($REGISTRY/pip/). It sets $TOOLS to a PATH with the tools of this machine,
// since agents have the PATH of their login shell. registry down stops serving: registry [down]
func registryCmd(ts *testscript.TestScript, neg bool, args []string) {
	set := stageOf(ts)
	if len(args) > 0 {
		set.registry.Close()
		return
	}
	mux := http.NewServeMux()
	set.registry = httptest.NewServer(mux)
	ts.Defer(set.registry.Close)
	serve := func(path, kind string, data []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Cache-Control", "max-age=600") // otherwise pip keeps nothing
			_, _ = w.Write(data)                           // the client may have gone
		})
	}
	serveGo(ts, serve)
	serveNpm(ts, serve, set.registry.URL)
	servePip(ts, serve)
	ts.Setenv("REGISTRY", set.registry.URL)
	ts.Setenv("TOOLS", strings.Join(toolDirs(), string(filepath.ListSeparator)))
}

// toolDirs returns the folders of the tools themselves, not of shims that need a home.
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
