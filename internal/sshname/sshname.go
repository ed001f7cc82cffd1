// Package sshname reads the names of machines as ssh knows them.
package sshname

import (
	"errors"
	"net"
	"strconv"
	"strings"
	"unicode"
)

// Host is a machine: an alias of ssh's configuration, or [USER@]HOST[:PORT]. An address of
// IPv6 with a port is in brackets.
type Host struct {
	Name        string // as written
	Destination string // [USER@]HOST
	Port        string // empty for the port in the configuration
}

// Command is the command line by which a person reaches the host.
func (h Host) Command() string {
	if h.Port == "" {
		return "ssh " + h.Destination
	}
	return "ssh -p " + h.Port + " " + h.Destination
}

// Parse reads the name of a host.
func Parse(name string) (Host, error) {
	h := Host{Name: name, Destination: name}
	user, rest, hasUser := strings.Cut(name, "@")
	if !hasUser {
		user = ""
		rest = name
	}
	bracketed := strings.HasPrefix(rest, "[")
	if bracketed && strings.HasSuffix(rest, "]") {
		rest = rest[1 : len(rest)-1]
	} else if bracketed || strings.Count(rest, ":") == 1 {
		address, port, err := net.SplitHostPort(rest)
		if err != nil {
			return h, notAHost(name)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return h, notAHost(name)
		}
		rest = address
		h.Port = port
	}
	h.Destination = rest
	if hasUser {
		h.Destination = user + "@" + rest
	}
	bad := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`'"\$`+"`;&|<>(){}*?!#", r)
	}
	if rest == "" || hasUser && user == "" || strings.HasPrefix(h.Destination, "-") ||
		strings.HasPrefix(rest, "-") ||
		strings.ContainsFunc(name, bad) {
		return h, notAHost(name)
	}
	return h, nil
}

func notAHost(name string) error { return errors.New(strconv.Quote(name) + " is not a host") }
