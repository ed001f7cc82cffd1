package codex

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// commandText reads a command that is a string or a list of words. A person decides by it: what it leaves out must be
// nothing but the usual shell around the rest.
func commandText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return shellText(text)
	}
	var words []string
	if json.Unmarshal(raw, &words) != nil {
		return ""
	}
	if len(words) == 3 && isShell(words[0]) && (words[1] == "-lc" || words[1] == "-c") {
		return words[2]
	}
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`;&|<>()*?[]#~!{}") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// shellText takes the shell off a command: codex reports all of them as
// /bin/bash -lc '…', or with -c where login shells are off.
func shellText(command string) string {
	shell, rest, _ := strings.Cut(command, " ")
	flag, rest, _ := strings.Cut(rest, " ")
	if !isShell(shell) || flag != "-lc" && flag != "-c" {
		return command
	}
	if word, ok := unquote(rest); ok {
		return word
	}
	return command
}

// isShell knows the shells of a system. The model may name any program as its shell, and another one is shown.
func isShell(name string) bool {
	dir, base := path.Split(name)
	return slices.Contains([]string{"", "/bin/", "/usr/bin/", "/usr/local/bin/"}, dir) &&
		slices.Contains([]string{"bash", "sh", "zsh", "dash", "ksh", "fish"}, base)
}

// unquote reads text as one word of a shell's; false if it is none, or more than one.
func unquote(text string) (word string, ok bool) {
	var b strings.Builder
	for text != "" {
		switch text[0] {
		case '\'':
			inner, rest, closed := strings.Cut(text[1:], "'")
			if !closed {
				return "", false
			}
			b.WriteString(inner)
			text = rest
		case '"':
			rest, closed := unquoteDouble(text[1:], &b)
			if !closed {
				return "", false
			}
			text = rest
		case '\\':
			if len(text) < 2 {
				return "", false
			}
			b.WriteByte(text[1])
			text = text[2:]
		case ' ', '\t', '\n':
			return "", false
		default:
			b.WriteByte(text[0])
			text = text[1:]
		}
	}
	return b.String(), b.Len() > 0
}

// unquoteDouble reads up to the closing quote; a backslash stands for itself but before $, `, " and another.
func unquoteDouble(text string, b *strings.Builder) (rest string, closed bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return text[i+1:], true
		case c == '\\' && i+1 < len(text) && strings.IndexByte("$`\"\\", text[i+1]) >= 0:
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
