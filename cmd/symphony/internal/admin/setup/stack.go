package setup

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// Stack tells how a kind of project is verified in the sandbox, without a network.
type Stack struct {
	Name  string
	Files []string // any of them at the top of a repository shows this stack
	// Verify is the command that must succeed before an issue is handed over; empty if no
	// command is known to work without a network.
	Verify string
	// Fetch puts the files that Verify needs into a place that the agent can read. It is a
	// part of a hook, and runs in a copy of the base.
	Fetch string
	// Ignore lists the files that builds and tests leave in the work tree.
	Ignore string
}

const (
	venv    = "venv=$SYMPHONY_AGENT_CACHE/venv\n"
	pip     = "\n" + `"$venv/bin/pip" install --quiet`
	newVenv = venv + `python3 -m venv "$venv"` + pip
	pytest  = " pytest"
	// unittest counts a file without a class of tests as no tests, and passes.
	unittest = " unittest"
	// 5: there are no tests yet
	runPytest = `"$XDG_CACHE_HOME/venv/bin/python" -m` + pytest + " || [ $? = 5 ]"
	pycache   = `__pycache__/\n*.egg-info/`
	uv        = `UV_PROJECT_ENVIRONMENT="$venv" uv sync --quiet --frozen --all-extras --link-mode copy`
	cargoTest = `CARGO_TARGET_DIR="$XDG_CACHE_HOME/target" cargo test --offline`
	npm       = "npm ci --no-audit --no-fund --"
	npmCache  = `npm_config_cache="$SYMPHONY_AGENT_CACHE/npm" `
	npmTest   = " && npm test"
	pnpm      = `pnpm install --offline --frozen-lockfile --store-dir "$XDG_CACHE_HOME/pnpm"`
	bunTest   = `BUN_INSTALL_CACHE_DIR="$XDG_CACHE_HOME/bun" bun install --frozen-lockfile && bun run test`
	bunFetch  = `BUN_INSTALL_CACHE_DIR="$SYMPHONY_AGENT_CACHE/bun" bun install --frozen-lockfile --ignore-scripts`
	// Yarn 1 reads YARN_CACHE_FOLDER and YARN_IGNORE_SCRIPTS, its successors the other two
	// variables.
	yarn     = " yarn install --frozen-lockfile"
	yarnTest = `YARN_CACHE_FOLDER="$XDG_CACHE_HOME/yarn" YARN_GLOBAL_FOLDER="$XDG_CACHE_HOME/yarn"` +
		yarn + " && yarn test"
	yarnFetch = `YARN_IGNORE_SCRIPTS=true YARN_CACHE_FOLDER="$SYMPHONY_AGENT_CACHE/yarn" ` +
		`YARN_ENABLE_SCRIPTS=false YARN_GLOBAL_FOLDER="$SYMPHONY_AGENT_CACHE/yarn"` + yarn
	mvnTest = ` -q -B -o -Dmaven.repo.local="$XDG_CACHE_HOME/m2" test`
	// Only a build makes Maven download all plugins of a build.
	mvnFetch = ` -q -B -Dmaven.repo.local="$SYMPHONY_AGENT_CACHE/m2" -Dmaven.test.failure.ignore test`
	// editable makes the packages that were installed from the copy lead to the workspace.
	editable = "\n" + `grep -rIlF "$base" "$venv" | ` +
		`while read -r file; do sed -i.old "s|$base|$SYMPHONY_WORKSPACE|g" "$file"; done`
)

// Stacks are the stacks that init knows, the most telling first: a package.json often belongs
// to tools of another stack. Of several rows with the same name the first that fits counts.
var Stacks = []Stack{
	{"Go", []string{"go.mod"}, "go vet ./... && go test ./...", "go mod download", ""},
	{"Rust", []string{"Cargo.lock"}, cargoTest + " --locked", "cargo fetch --locked", "/target/"},
	{"Rust", []string{"Cargo.toml"}, cargoTest, "cargo fetch", "/target/"},
	{"Java", []string{"mvnw"}, "./mvnw" + mvnTest, "./mvnw" + mvnFetch, "target/"},
	{"Java", []string{"pom.xml"}, "mvn" + mvnTest, "mvn" + mvnFetch, "target/"},
	{"Java", []string{"build.gradle", "build.gradle.kts"}, "", "", ""}, // Gradle needs ports
	{"Python", []string{"uv.lock"}, runPytest, venv + uv + editable, pycache},
	{
		"Python",
		[]string{"pyproject.toml", "setup.py"},
		runPytest,
		newVenv + " --editable '.[dev,test]'" + pip + pytest + editable,
		pycache,
	},
	{
		"Python",
		[]string{"requirements.txt"},
		runPytest,
		newVenv + " $(printf -- '-r %s ' requirements*.txt)" + pip + pytest,
		pycache,
	},
	{
		"Node",
		[]string{"package-lock.json"},
		npm + "offline" + npmTest,
		npmCache + npm + "ignore-scripts",
		"node_modules/",
	},
	{
		"Node",
		[]string{"pnpm-lock.yaml"},
		pnpm + npmTest,
		`pnpm fetch --store-dir "$SYMPHONY_AGENT_CACHE/pnpm"`,
		"node_modules/",
	},
	{"Node", []string{"yarn.lock"}, yarnTest, yarnFetch, `node_modules/\n.pnp.*\n.yarn/install-state.gz`},
	{"Node", []string{"bun.lock", "bun.lockb"}, bunTest, bunFetch, "node_modules/"},
	{"Node", []string{"package.json"}, strings.TrimPrefix(npmTest, " && "), "", "node_modules/"},
}

// stacks finds the stacks of the repository in dir, or of the repository of which dir is a clone.
// The stack that is verified comes first.
func (d dialog) stacks(ctx context.Context, dir string) (list []Stack) {
	names := strings.Split(d.git(ctx, dir, "ls-tree", "--full-tree", "--name-only", "HEAD"), "\n")
	seen := map[string]bool{"": true}
	for _, row := range Stacks {
		at := slices.IndexFunc(
			row.Files,
			func(file string) bool { return slices.Contains(names, file) && d.suits(ctx, dir, file) },
		)
		if at < 0 || seen[row.Name] {
			continue
		}
		seen[row.Name] = true
		row.Files = row.Files[at : at+1]
		if row.Verify != "" {
			list = append(list, d.adapt(ctx, dir, row))
		}
	}
	return list
}

// suits reports whether a file tells a stack: a pyproject.toml may contain only settings of
// tools.
func (d dialog) suits(ctx context.Context, dir, file string) bool {
	if file != "pyproject.toml" {
		return true
	}
	content := d.git(ctx, dir, "show", "HEAD:"+file)
	return strings.Contains(content, "[project]") || strings.Contains(content, "[build-system]")
}

// adapt replaces the program that runs the tests, if the repository uses another program.
func (d dialog) adapt(ctx context.Context, dir string, row Stack) Stack {
	var manifest struct{ Scripts struct{ Test string } }
	switch row.Name {
	case "Node":
		err := json.Unmarshal([]byte(d.git(ctx, dir, "show", "HEAD:package.json")), &manifest)
		if err != nil { // npm test reports the fault
			return row
		}
		test := manifest.Scripts.Test
		if test == "" || strings.Contains(test, "no test specified") { // as npm init writes it
			own := strings.NewReplacer(
				"npm test", "node --test",
				"yarn test", "yarn node --test",
				"bun run test", "bun test",
			)
			row.Verify = own.Replace(row.Verify)
		}
	case "Python":
		if d.git(ctx, dir, "grep", "-l", "pytest", "HEAD", "--", ":/") == "" {
			runner := unittest
			tests := d.git(ctx, dir, "ls-tree", "--full-tree", "--name-only", "HEAD", "tests/")
			if tests != "" && !strings.Contains(tests, "__init__.py") {
				runner += " discover -s tests"
			}
			row.Verify = strings.Replace(row.Verify, pytest, runner, 1)
			row.Fetch = strings.Replace(row.Fetch, pip+pytest, "", 1)
		}
	}
	return row
}

// Lines are the lines of a script.
func (s Stack) Lines() []string { return strings.Split(s.Fetch, "\n") }
