package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// setting is one entry of a git configuration file. Section and name are in lower case.
type setting struct {
	section, sub, name string
	value              string
	bare               bool // it stands without a value
}

// errNoConfig says that git can't read a configuration, or that there is no git.
var errNoConfig = errors.New("it can't be read as configuration")

// parseConfig has git read a configuration, from its standard input: no repository, no other configuration and no
// include has a part in that.
func parseConfig(ctx context.Context, data []byte) ([]setting, error) {
	if len(data) == 0 {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, "git", "config", "--file", "-", "--no-includes", "--list", "-z")
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_DIR=/dev/null",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
	}
	cmd.Stdin = bytes.NewReader(data)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errNoConfig, err)
	}
	var list []setting
	for entry := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if entry == "" {
			continue
		}
		s := setting{}
		var key string
		var valued bool
		key, s.value, valued = strings.Cut(entry, "\n")
		s.bare = !valued
		first, last := strings.Index(key, "."), strings.LastIndex(key, ".")
		if first < 0 {
			return nil, fmt.Errorf("%w: the key %.60q", errNoConfig, key)
		}
		s.section, s.name = key[:first], key[last+1:]
		if last > first {
			s.sub = key[first+1 : last]
		}
		if last == first+1 { // a subsection without a name is not the section itself, and nobody's work
			return nil, fmt.Errorf("%w: the key %.60q", errNoConfig, key)
		}
		list = append(list, s)
	}
	return list, nil
}

// writeConfig is the opposite of parseConfig.
func writeConfig(list []setting) []byte {
	var b bytes.Buffer
	section := ""
	for _, s := range list {
		header := "[" + s.section + "]\n"
		if s.sub != "" {
			header = "[" + s.section + ` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s.sub) + "\"]\n"
		}
		if header != section {
			b.WriteString(header)
			section = header
		}
		b.WriteString("\t" + s.name)
		if !s.bare {
			b.WriteString(` = "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\b", `\b`).Replace(s.value) + `"`)
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// wholeFile is in the place of names where a configuration could not be read.
const wholeFile = ""

// settle makes a configuration what may be read outside the sandbox: of what could have programs run, exactly what
// was there when it could be trusted, and else what is there now. changed names what had to be undone, nothing where
// all may stay as it is. A configuration that can't be read is given up for the trusted one.
func (c configRules) settle(ctx context.Context, now, was []byte) (result []byte, changed []string, err error) {
	if bytes.Equal(now, was) {
		return now, nil, nil
	}
	have, err := parseConfig(ctx, now)
	var had []setting
	if err == nil {
		had, err = parseConfig(ctx, was)
	}
	if errors.Is(err, errNoConfig) {
		return was, []string{wholeFile}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	c = c.named(had, have)
	trusted, risky := c.risky(had), c.risky(have)
	if slices.Equal(trusted, risky) {
		return now, nil, nil
	}
	changed = differing(trusted, risky)
	left := c.without(have, trusted)
	if !slices.Equal(c.risky(left), trusted) || slices.Equal(left, had) {
		return was, changed, nil
	}
	result = writeConfig(left)
	again, err := parseConfig(ctx, result)
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err != nil || !slices.Equal(again, left) {
		return was, changed, nil //nolint:nilerr // the trusted one is good in any case
	}
	return result, changed, nil
}

func (c configRules) risky(list []setting) (some []setting) {
	for _, s := range list {
		if !c.harmless(s) {
			some = append(some, s)
		}
	}
	return some
}

// without takes away what may not stay and was not there. Of equal ones as many stay as there were.
func (c configRules) without(list, trusted []setting) (left []setting) {
	budget := map[setting]int{}
	for _, s := range trusted {
		budget[s]++
	}
	for _, s := range list {
		if c.harmless(s) {
			left = append(left, s)
		} else if budget[s] > 0 {
			budget[s]--
			left = append(left, s)
		}
	}
	return left
}

// differing names what one list has more often than the other, each key once.
func differing(was, now []setting) (names []string) {
	count := map[setting]int{}
	for _, s := range was {
		count[s]--
	}
	for _, s := range now {
		count[s]++
	}
	for _, s := range slices.Concat(now, was) {
		if name := s.spelled(); count[s] != 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if names == nil {
		names = append(names, "the order of its entries")
	}
	return names
}
