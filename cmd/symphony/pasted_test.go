package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symphony-cron/symphony/internal/test"
)

// A person pastes the blocks of the documentation into bash or zsh.

// pastedScripts are the scripts that run blocks of the documentation with $PASTED_INTO.
var pastedScripts = []string{
	"script/api",
	"script/questions",
	"all/recipe_webhook",
	"all/tutorial",
}

// shellBlocks are the blocks of shell by their first lines, each with the script or the test
// that runs it, or the reason why nothing does. Then only its syntax is checked.
var shellBlocks = map[string]string{
	// README.md
	"git clone https://github.com/symphony-cron/symphony && cd symphony": "needs the network",
	"scripts/build ~/.local/bin/symphony":                                "takes a minute: scripts/release-check builds, too",
	"npm install -g @openai/codex":                                       "needs the network and a login",
	"symphony init --tracker file":                                       "all/tutorial",
	"symphony init --tracker github":                                     "needs a token",
	"gh label create symphony":                                           "needs a token",
	"git fetch\ngit log -p HEAD..origin/symphony/GH-12":                  "needs a token",

	// docs/tutorial.md
	"cp -r examples/greeter ~/greeter":                            "all/tutorial",
	"symphony issues new 'Greet in French' --body-file - <<'END'": "all/tutorial",
	"symphony done 2": "all/tutorial",
	"symphony doctor": "all/tutorial",
	"symphony run 2":  "all/tutorial",
	"symphony show 2": "all/tutorial",
	"git worktree add -q --detach ../greeter-look": "all/tutorial",
	"git merge -q symphony/TASK-2":                 "all/tutorial",

	// docs/review.md
	"git log --stat main..symphony/ABC-7":              "all/tutorial",
	"git worktree add --detach ../look symphony/ABC-7": "all/tutorial",
	"git worktree remove --force ../look":              "all/tutorial",
	"git switch main\ngit pull":                        "needs a server: the block above it is all/tutorial",
	"symphony tell ABC-7 ":                             "all/tutorial",
	"symphony tell 2 ":                                 "all/tutorial",
	"git switch main":                                  "all/tutorial",

	// docs/api.md: its lines that begin with curl
	"symphony serve --port 7967": "does not end",
	"curl -s ":                   "script/api",
	"curl -sN ":                  "script/api",

	// docs/install.md
	"ssh-keygen -Y verify -f allowed_signers ":     "needs a release: scripts/release-check",
	"loginctl enable-linger":                       "needs systemd: scripts/package/story",
	"sudo systemd-sysusers symphony.conf":          "needs systemd: scripts/package/story",
	"sudo systemctl enable --now symphony.service": "needs systemd: scripts/package/story",
	"podman load -i symphony-v1.2.3-oci-amd64.tar": "needs a release: scripts/release-check",
	"systemctl --user daemon-reload":               "needs systemd: TestSystemd",
	"cd ~/web-shop\nsymphony schedule remove":      "TestMovingToAnotherMachine",
	"tar -C ~ -xzf ~/symphony.tar.gz":              "TestMovingToAnotherMachine",

	// the other pages
	"claude mcp add build -- ssh build symphony mcp":         "needs another machine",
	"line=$(symphony status --project all) || ":              "needs mail",
	"symphony stop --all":                                    "all/tutorial",
	"symphony ps --json | jq ":                               "all/tutorial",
	"mkdir -p ~/.config/symphony":                            "all/recipe_webhook",
	"printf 'header = \"Authorization: Bearer %s\"' ":        "all/recipe_webhook",
	"issues=$(symphony issues --state ":                      "all/recipe_recurring",
	"npm_config_cache=$SYMPHONY_AGENT_CACHE/npm npm install": "needs the network",
	"ssh buildhost symphony approve ABC-7.3 ":                "TestAttentionRecipes",
}

// shellBlock matches a block of shell, which may be part of a list.
var shellBlock = regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```$")

// documentedBlocks returns the blocks of shell of a document.
func documentedBlocks(text string) []string {
	var blocks []string
	for _, m := range shellBlock.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, strings.ReplaceAll("\n"+m[2], "\n"+m[1], "\n")[1:])
	}
	return blocks
}

// A block of shell works as it was pasted: bash and zsh accept it, and a script runs it if that
// can be done here.
func TestShellBlocks(t *testing.T) {
	shells := []string{"bash"}
	if _, err := exec.LookPath("zsh"); err == nil {
		shells = append(shells, "zsh")
	} else {
		t.Log("zsh is not installed: only bash checks the blocks")
	}
	listed := map[string]bool{}
	for _, name := range documentNames() {
		for _, block := range documentedBlocks(document(t, name)) {
			first := listedBlock(block)
			test.Equal(t, name+": shellBlocks has the block "+block, first != "", true)
			listed[first] = true
			checkPasted(t, name, block)
			for _, shell := range shells {
				check := exec.Command(shell, "-n")
				check.Stdin = strings.NewReader(block)
				out, err := check.CombinedOutput()
				if err != nil || len(out) > 0 {
					t.Errorf("%s: %s does not accept %s: %v %s", name, shell, block, err, out)
				}
			}
		}
	}
	for first, by := range shellBlocks {
		test.Equal(t, "a document has the block "+first, listed[first], true)
		if folder, script, found := strings.Cut(by, "/"); found && (folder == "all" || folder == "script") {
			_ = test.Must(os.Stat(filepath.Join(moduleRoot, "testdata", folder, script+".txtar")))
		}
	}
}

// listedBlock returns the key of a block in shellBlocks, empty if there is none.
func listedBlock(block string) string {
	longest := ""
	for first := range shellBlocks {
		if strings.HasPrefix(block, first) && len(first) > len(longest) {
			longest = first
		}
	}
	return longest
}

var (
	quotedText = regexp.MustCompile(`'[^']*'|"[^"]*"`)
	hereText   = regexp.MustCompile(`(?ms)<<'END'$.*?^END$`)
)

// checkPasted refuses what only scripts can contain. An interactive zsh passes a comment to the
// command before it, and takes an unquoted ? or * that matches no file for a mistake. Both
// shells replace an exclamation mark by an earlier command. None has a prompt $ to skip.
func checkPasted(t *testing.T, name, block string) {
	t.Helper()
	bare := quotedText.ReplaceAllString(hereText.ReplaceAllString(block, ""), "")
	for line := range strings.Lines(bare) {
		switch {
		case strings.HasPrefix(line, "$ "), regexp.MustCompile(`(^|\s)#`).MatchString(line):
			t.Errorf("%s: zsh does not take the line %q", name, line)
		case strings.ContainsAny(line, "!?*"):
			t.Errorf("%s: quote ! ? and * in the line %q", name, line)
		}
	}
	if strings.Contains(block, "\t") {
		t.Errorf("%s: a terminal completes at the tab in %q", name, block)
	}
}

// The blocks that scripts run in bash work in zsh, too.
func TestPastedIntoZsh(t *testing.T) {
	test.Expensive(t)
	if _, err := exec.LookPath("zsh"); err != nil {
		t.Skip("zsh is not installed")
	}
	t.Parallel()
	p := params(t, "script")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setup(env); err != nil {
			return err
		}
		env.Setenv("PASTED_INTO", "zsh")
		return nil
	}
	texts := map[string]string{}
	for _, name := range pastedScripts {
		path := filepath.Join(moduleRoot, "testdata", name+".txtar")
		texts[filepath.Base(name)] = string(test.Must(os.ReadFile(path)))
	}
	runScripts(t, p, texts)
}
