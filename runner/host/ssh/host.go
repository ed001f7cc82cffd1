// Package ssh starts and reaches the daemons of runs on other machines with the system's ssh. Its configuration decides how a host is
// reached and who logs in; symphony only forbids questions and forwarding.
package ssh

import (
	"net"
	"strconv"
	"strings"
	"unicode"

	"github.com/symphony-cron/symphony/reconcile"
)

// Host is a machine as ssh names it: an alias of its configuration, or [USER@]HOST[:PORT]. An address of IPv6 with a port is in brackets.
type Host struct {
	Name        string // as written
	destination string
	port        string // empty for that of the configuration
}

// Parse reads the name of a host.
func Parse(name string) (Host, error) {
	h := Host{Name: name, destination: name}
	user, rest, hasUser := strings.Cut(name, "@")
	if !hasUser {
		user, rest = "", name
	}
	bracketed := strings.HasPrefix(rest, "[")
	if bracketed && strings.HasSuffix(rest, "]") {
		rest = rest[1 : len(rest)-1]
	} else if bracketed || strings.Count(rest, ":") == 1 {
		address, port, err := net.SplitHostPort(rest)
		if err != nil {
			return h, invalid(name)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return h, invalid(name)
		}
		rest, h.port = address, port
	}
	if h.destination = rest; hasUser {
		h.destination = user + "@" + rest
	}
	bad := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`'"\$`+"`;&|<>(){}*?!#", r)
	}
	if rest == "" || hasUser && user == "" || strings.HasPrefix(h.destination, "-") || strings.HasPrefix(rest, "-") ||
		strings.ContainsFunc(name, bad) {
		return h, invalid(name)
	}
	return h, nil
}

func invalid(name string) error {
	return reconcile.NewError("invalid_config", "worker.ssh_hosts: "+strconv.Quote(name)+" is not a host",
		"write an alias of ssh's configuration, or user@host:port; an IPv6 address with a port in brackets")
}
