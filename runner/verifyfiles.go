package runner

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// decisiveFiles are files of a repository that tell build tools which commands to run. They lie
// where the tool is started.
var decisiveFiles = []string{
	".cargo/config", ".cargo/config.toml", ".justfile", ".mvn/extensions.xml", ".mvn/jvm.config", ".mvn/maven.config",
	".mvn/wrapper/maven-wrapper.properties", ".npmrc", ".pnpmfile.cjs", ".pre-commit-config.yaml", ".rspec",
	".yarnrc", ".yarnrc.yml", "CMakeLists.txt", "GNUmakefile", "Gemfile", "Justfile", "Makefile", "Rakefile",
	"Taskfile.yaml", "Taskfile.yml", "build.gradle", "build.gradle.kts", "build.rs", "bunfig.toml",
	"composer.json", "conftest.py", "gradle.properties", "justfile", "makefile", "mix.exs", "noxfile.py",
	"package.json", "phpunit.xml", "phpunit.xml.dist", "pom.xml", "pyproject.toml", "pytest.ini",
	"settings.gradle", "settings.gradle.kts", "setup.cfg", "tox.ini",
}

const mostFiles = 1000 // paths that are looked for

// commandFiles returns the paths of files in a repository that a shell command would run: files
// that it names, and decisiveFiles, also in directories that it names. "cd web && npm test"
// leads to web/package.json, for example. Many of the paths do not exist.
func commandFiles(command string) (files []string) {
	dirs := []string{"."}
	for _, word := range shellWords(command) {
		clean := path.Clean(word)
		if clean != "." && !path.IsAbs(clean) && !strings.HasPrefix(clean, "-") &&
			!strings.HasPrefix(clean, "..") && !slices.Contains(dirs, clean) {
			dirs = append(dirs, clean)
		}
	}
	files = slices.Clone(dirs[1:])
	for _, dir := range dirs {
		for _, file := range decisiveFiles {
			files = append(files, path.Join(dir, file))
		}
	}
	return files[:min(len(files), mostFiles)]
}

// shellWords splits a shell command, roughly: quotes, operators, assignments and dollar signs
// end words.
func shellWords(command string) []string {
	return strings.FieldsFunc(command, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`;&|()<>{}=$\\", r)
	})
}
