package git

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/runner/host/gitcmd"
)

// Ask runs git in a repository, with literal paths, and returns what it prints.
type Ask func(stdin string, args ...string) (string, error)

// Change is a file that differs between two commits. Modes are as git prints them: 100644 for a
// file, 000000 for none.
type Change struct {
	Name              string
	OldMode, Mode     string
	OldObject, Object string
	IsNew, WasDeleted bool
}

// MergeBases returns the commits at which two histories separated: none if they have nothing in
// common, several if they were merged crosswise. A merge keeps a file that a commit has changed
// since any of them.
func MergeBases(ask Ask, one, other string) ([]string, error) {
	list, err := ask("", "merge-base", "--all", one, other)
	if gitcmd.ExitedWith(err, 1) {
		return nil, nil
	}
	return strings.Fields(list), err
}

// Changes are the files that differ between two commits.
type Changes struct {
	From, To string
	Files    []Change
}

// ReadChanges asks git for the changes between two commits.
func ReadChanges(ask Ask, from, to string) (Changes, error) {
	c := Changes{From: from, To: to}
	words := append(slices.Clone(diffTreeWords), "--raw", "-z", "--no-abbrev")
	raw, err := ask("", append(words, from, to, "--")...)
	if err != nil {
		return c, err
	}
	entries := strings.Split(raw, "\x00")
	for i := 0; i+1 < len(entries); i += 2 {
		// ":100644 100755 8ab686e 3f2a9c1 M": modes, objects, and what happened
		fields := strings.Fields(strings.TrimPrefix(entries[i], ":"))
		c.Files = append(c.Files, Change{
			Name:       entries[i+1],
			OldMode:    fields[0],
			Mode:       fields[1],
			OldObject:  fields[2],
			Object:     fields[3],
			IsNew:      fields[4] == "A",
			WasDeleted: fields[4] == "D",
		})
	}
	return c, nil
}

const (
	plainMode = "100644" // of a file that is not executable
	noMode    = "000000" // of no file
)

// isPlain reports whether a change is only about a file that is not executable.
func (c Change) isPlain() bool {
	modes := []string{plainMode, noMode}
	return slices.Contains(modes, c.OldMode) && slices.Contains(modes, c.Mode) && !strings.Contains(c.Name, "\n")
}

// settingsNames matches the paths of files that programs obey or run whatever the command is: dot
// files, names without an extension unless they are in capitals as LICENSE is, and files of builds
// and of configuration, such as web/package.json.
var settingsNames = text.Pattern(`(?i)(?:^|/)\.|(?-i:(?:^|/)[^./]*[^./A-Z_-][^./]*$)|(?:^|/)buildSrc/|` +
	`\.(?:sh|bash|zsh|ksh|t?csh|fish|ps1|psm1|bat|cmd|mk|mak|make|ninja|cmake|just|rake|toml|ya?ml|json[5c]?|jsonnet|` +
	`ini|cfg|conf|config|xml|plist|properties|props|targets|gradle|groovy|kts|sbt|bzl|bazel|nix|tf|hcl|lock|lockb|` +
	`sum|mod|work|gemspec|podspec|cabal|opam|[a-z]{1,4}proj|slnx?|edn|gypi?|pth|pro|pri|m4|a[cm]|dockerfile)` +
	`(?:\.dist|\.in)?$|\.(?:conf|config|setup|workspace)\.(?:[a-z]+\.)?[cm]?[jt]s$|` +
	`(?:^|/)(?:GNUmake|make|docker|container|just|rake|gem|guard|fast|danger|vagrant|proc|jenkins|earth|tilt|pod|` +
	`brew|snake|pip|task|cake)file[._-][^/]*$|` +
	`(?:^|/)(?:(?:requirements|constraints)[^/]*\.txt|CMakeLists\.txt|BUCK|BUILD|WORKSPACE|meson\.build|` +
	`(?:conftest|setup|noxfile|tasks|fabfile|dodo|manage|(?:site|user)customize)\.py|__main__\.[a-z]+|` +
	`build\.(?:rs|zig|xml|sc|mill|PL)|mix\.exs|(?:grunt|gulp)file\.[cm]?[jt]s|magefile\.go|Package\.swift|` +
	`project\.clj)$`)

// isNamedIn reports whether a command has the name of a file: lint.py, or python3 -m ci.lint for
// ci/lint.py.
func isNamedIn(command, file string) bool {
	module := strings.ReplaceAll(strings.TrimSuffix(file, path.Ext(file)), "/", ".")
	return strings.Contains(command, path.Base(file)) || strings.Contains(command, "-m "+module)
}

// ProofFiles returns the changed files that a check of the work, such as the command, may run or
// obey: what is or was executable or names its interpreter, settings, what has a name that occurs
// in the command, and what a link with such a name leads to. No shell is parsed for that.
func ProofFiles(ask Ask, changes Changes, command string) (files []string, err error) {
	obeyed := func(name string) bool {
		return settingsNames().MatchString(name) || isNamedIn(command, name)
	}
	var before, after []string
	for _, c := range changes.Files {
		if !c.isPlain() || obeyed(c.Name) {
			files = append(files, c.Name)
			continue
		}
		if c.OldMode == plainMode {
			before = append(before, c.Name)
		}
		if c.Mode == plainMode {
			after = append(after, c.Name)
		}
	}
	wereScripts, err := scriptsAmong(ask, changes.From, before)
	if err != nil {
		return nil, err
	}
	scripts, err := scriptsAmong(ask, changes.To, after)
	if err != nil {
		return nil, err
	}
	targets, err := targetsAmong(ask, changes.To, after, obeyed)
	if err != nil {
		return nil, err
	}
	files = slices.Concat(files, wereScripts, scripts, targets)
	slices.Sort(files)
	return slices.Compact(files), nil
}

// namedAtOnce is how many paths are arguments of one git.
const namedAtOnce = 1000

// scriptsAmong returns those of the files of a commit that begin with their interpreter, such as
// #!/bin/sh. Rust's #![allow(dead_code)] is none.
func scriptsAmong(ask Ask, commit string, names []string) (scripts []string, err error) {
	for some := range slices.Chunk(names, namedAtOnce) {
		out, err := ask("", append([]string{"grep", "-naozE", "^#![[:blank:]]*/", commit, "--"}, some...)...)
		if gitcmd.ExitedWith(err, 1) { // there is none
			continue
		}
		if err != nil {
			return nil, err
		}
		// "COMMIT:NAME", "1", "#!/" and a line feed, with a zero byte between
		for line := range strings.Lines(out) {
			fields := strings.Split(line, "\x00")
			if len(fields) == 3 && fields[1] == "1" {
				scripts = append(scripts, strings.TrimPrefix(fields[0], commit+":"))
			}
		}
	}
	return scripts, nil
}

// targetsAmong returns those of the files of a commit to which an obeyed link leads: itself, or a
// directory above it.
func targetsAmong(ask Ask, commit string, names []string, obeyed func(string) bool) (targets []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	tree, err := ask("", "ls-tree", "-r", "-z", commit)
	if err != nil {
		return nil, err
	}
	var links []string
	for entry := range strings.SplitSeq(tree, "\x00") {
		about, name, _ := strings.Cut(entry, "\t")
		if strings.HasPrefix(about, "120000 ") && obeyed(name) && !strings.Contains(name, "\n") {
			links = append(links, name)
		}
	}
	if len(links) == 0 {
		return nil, nil
	}
	above := Above(names)
	ids, err := ObjectsAt(ask, commit, slices.Concat(links, above))
	if err != nil {
		return nil, err
	}
	linked := map[string]bool{}
	for _, name := range links {
		linked[ids[name]] = true
	}
	isTarget := func(name string) bool {
		return slices.ContainsFunc(Above([]string{name}), func(at string) bool { return ids[at] != "" && linked[ids[at]] })
	}
	return text.Filter(names, isTarget), nil
}

// Above returns paths and the directories above them: web/a.txt and web, for example.
func Above(names []string) (all []string) {
	for _, name := range names {
		for ; name != "."; name = path.Dir(name) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ObjectsAt returns the ids of the objects at paths of a commit, through links within it. What is
// missing there has none.
func ObjectsAt(ask Ask, commit string, names []string) (map[string]string, error) {
	var asked strings.Builder
	for _, name := range names {
		asked.WriteString(commit + ":" + name + "\n")
	}
	out, err := ask(asked.String(), "cat-file", "--follow-symlinks", "--batch-check=%(objectname) found")
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, name := range names {
		var line string
		line, out, _ = strings.Cut(out, "\n")
		id, isFound := strings.CutSuffix(line, " found")
		if isFound {
			ids[name] = id
			continue
		}
		// A link that leads nowhere or out of the commit: "symlink 7", then 7 bytes and a line feed.
		_, length, _ := strings.Cut(line, " ")
		size, err := strconv.Atoi(length)
		if err == nil {
			out = out[min(size+1, len(out)):]
		}
	}
	return ids, nil
}
