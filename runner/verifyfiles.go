package runner

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// programFiles are files of a repository that tell a program which commands to run, by its
// name. They lie where the program is started.
var programFiles = map[string][]string{
	"bun":      {"package.json", "bunfig.toml"},
	"bundle":   {"Gemfile", "Rakefile", ".rspec"},
	"cargo":    {".cargo/config.toml", ".cargo/config", "build.rs"},
	"composer": {"composer.json"},
	"ctest":    {"CMakeLists.txt"},
	"gmake":    {"GNUmakefile", "makefile", "Makefile"},
	"gradle": {
		"build.gradle",
		"build.gradle.kts",
		"settings.gradle",
		"settings.gradle.kts",
		"gradle.properties",
	},
	"gradlew": {
		"build.gradle",
		"build.gradle.kts",
		"settings.gradle",
		"settings.gradle.kts",
		"gradle.properties",
	},
	"just": {"justfile", "Justfile", ".justfile"},
	"make": {"GNUmakefile", "makefile", "Makefile"},
	"mix":  {"mix.exs"},
	"mvn":  {"pom.xml", ".mvn/maven.config", ".mvn/jvm.config", ".mvn/extensions.xml"},
	"mvnw": {
		"pom.xml",
		".mvn/maven.config",
		".mvn/jvm.config",
		".mvn/extensions.xml",
		".mvn/wrapper/maven-wrapper.properties",
	},
	"nox":        {"noxfile.py"},
	"npm":        {"package.json", ".npmrc"},
	"npx":        {"package.json", ".npmrc"},
	"phpunit":    {"phpunit.xml", "phpunit.xml.dist"},
	"pnpm":       {"package.json", ".npmrc", ".pnpmfile.cjs"},
	"pre-commit": {".pre-commit-config.yaml"},
	"pytest":     {"pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "conftest.py"},
	"rake":       {"Rakefile"},
	"rspec":      {".rspec"},
	"task":       {"Taskfile.yml", "Taskfile.yaml"},
	"tox":        {"tox.ini", "pyproject.toml", "setup.cfg"},
	"yarn":       {"package.json", ".yarnrc", ".yarnrc.yml"},
}

const mostFiles = 500 // paths that are looked for

// commandFiles returns the paths of files in a repository that a shell command would run:
// files that it names, and files by which the programs that it names choose their commands,
// also in directories that it names. "cd web && npm test" leads to web/package.json, for
// example. Many of the paths do not exist.
func commandFiles(command string) (files []string) {
	var named, decisive []string
	for _, word := range shellWords(command) {
		decisive = append(decisive, programFiles[path.Base(word)]...)
		clean := path.Clean(word)
		if clean != "." && !path.IsAbs(clean) && !strings.HasPrefix(clean, "-") &&
			!strings.HasPrefix(clean, "..") {
			named = append(named, clean)
		}
	}
	files = append(named, decisive...)
	for _, dir := range named {
		for _, file := range decisive {
			files = append(files, path.Join(dir, file))
		}
	}
	var unique []string
	for _, file := range files {
		if !slices.Contains(unique, file) && len(unique) < mostFiles {
			unique = append(unique, file)
		}
	}
	return unique
}

// shellWords splits a shell command, roughly: quotes, operators, assignments and dollar signs
// end words.
func shellWords(command string) []string {
	return strings.FieldsFunc(command, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'`;&|()<>{}=$\\", r)
	})
}
