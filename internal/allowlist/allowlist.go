// Package allowlist decides which hosts agents may reach, by the names that a workflow lists.
package allowlist

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-cron/symphony/internal/suggest"
	"github.com/symphony-cron/symphony/internal/text"
)

// List is what a workflow allows. The zero value allows nothing.
type List struct{ rules []Rule }

// Rule is an entry of a list:
//
//	github.com                       the host, on the usual ports: 443, and 80 for plain HTTP
//	*.example.com                    every host below example.com, and not example.com itself
//	example.com:8443                 on this port alone
//	nexus.corp.example=10.1.2.3      a host on a private network, at this address
//	*.corp.example=10.0.0.0/8        hosts on a private network whose addresses are there
//	10.1.2.3:8081                    an address
type Rule struct {
	Host   string // in lower case, without a last dot
	Below  bool   // the rule is about the hosts below Host
	Port   uint16 // 0 for the usual ports
	Within []netip.Prefix
	// Anywhere: the host may have any address. It is the host of a model that the operator
	// names, such as a gateway of the company.
	Anywhere bool
}

// With returns the list with more rules.
func (l List) With(rules ...Rule) List { return List{slices.Concat(l.rules, rules)} }

// Fixed returns the addresses of a host that the list names itself, so that no one else can
// say where the host is.
func (r Rule) Fixed() []netip.Addr {
	var addresses []netip.Addr
	for _, prefix := range r.Within {
		if !prefix.IsSingleIP() {
			return nil
		}
		addresses = append(addresses, prefix.Addr())
	}
	return addresses
}

// Admits reports whether the host of the rule may have an address. A host without addresses in
// the list has to be on the internet: otherwise whoever controls its name could lead agents to
// this machine and its network.
func (r Rule) Admits(address netip.Addr) bool {
	address = address.Unmap()
	if r.Anywhere {
		return true
	}
	if len(r.Within) == 0 {
		return IsPublic(address)
	}
	return slices.ContainsFunc(r.Within, func(p netip.Prefix) bool { return p.Contains(address) })
}

func (r Rule) matches(host string) bool {
	if r.Below {
		return strings.HasSuffix(host, "."+r.Host)
	}
	return host == r.Host
}

// words are the names of registries, with the hosts that their clients need.
var words = map[string][]string{
	"crates": {"crates.io", "index.crates.io", "static.crates.io"},
	"debian": {"deb.debian.org", "security.debian.org"},
	"go":     {"proxy.golang.org", "sum.golang.org"},
	"maven":  {"repo.maven.apache.org", "repo1.maven.org"},
	"npm":    {"registry.npmjs.org", "registry.yarnpkg.com"},
	"pypi":   {"pypi.org", "files.pythonhosted.org"},
}

// Parse reads the entries of a list.
func Parse(entries []string) (List, error) {
	var l List
	for _, entry := range entries {
		hosts, isWord := words[entry]
		if !isWord {
			hosts = []string{entry}
		}
		for _, host := range hosts {
			rule, err := parseRule(host)
			if err != nil {
				return List{}, err
			}
			l.rules = append(l.rules, rule)
		}
	}
	return l, nil
}

// misread says what to write instead of an entry that is more than a host: a URL, a path, a port
// alone, a user, several hosts, or every host. It is nil for other entries.
func misread(entry string) error {
	scheme, rest, isURL := strings.Cut(entry, "://")
	if !isURL {
		rest = scheme
	}
	place, _, _ := strings.Cut(rest, "=")
	host, _, hasPath := strings.Cut(place, "/")
	_, afterUser, hasUser := strings.Cut(host, "@")
	afterUser, _, _ = strings.Cut(afterUser, ":")
	number, _ := strings.CutPrefix(host, ":")
	_, isRange := netip.ParsePrefix(entry)
	switch {
	case strings.ContainsAny(entry, ", \t"):
		return fmt.Errorf("%q is more than one host: write each as an item of its own", entry)
	case isURL:
		return fmt.Errorf("%q is a URL: write its host, %s", entry, host)
	case hasUser:
		return fmt.Errorf("%q has a user: write its host, %s", entry, afterUser)
	case isRange == nil:
		return fmt.Errorf("%q is a range of addresses: write each host, or a name such as *.example.com", entry)
	case hasPath:
		return fmt.Errorf("%q has a path, and a host is allowed as a whole: write %s", entry, host)
	case host == "*" || strings.HasPrefix(host, "*:"):
		return fmt.Errorf("%q would allow every host: agent.network: true does that", entry)
	case text.IsNumber(number):
		return fmt.Errorf("%q is a port without a host: write HOST:%s", entry, number)
	case strings.Contains(strings.TrimPrefix(host, "*."), "*"):
		return fmt.Errorf("%q: a * stands only for all hosts below one, at the beginning: *.example.com", entry)
	}
	return nil
}

func parseRule(entry string) (Rule, error) {
	var r Rule
	if err := misread(entry); err != nil {
		return r, err
	}
	place, within, hasAddress := strings.Cut(entry, "=")
	if hasAddress {
		prefix, err := parsePrefix(within)
		if err != nil {
			return r, fmt.Errorf("%q: %q is no address such as 10.1.2.3 and no network such as 10.0.0.0/8", entry, within)
		}
		r.Within = []netip.Prefix{prefix}
	}
	host, port, err := splitPort(place)
	if err != nil {
		return r, fmt.Errorf("%q: %w", entry, err)
	}
	r.Port = port
	host, r.Below = strings.CutPrefix(host, "*.")
	name, err := Name(host)
	if err != nil {
		return r, fmt.Errorf("%q is no host: %w", entry, err)
	}
	r.Host = name
	if !strings.Contains(name, ".") && len(r.Within) == 0 && !isAddress(name) {
		if r.Below {
			return r, fmt.Errorf("%q would allow too many hosts: write the names below it", entry)
		}
		return r, fmt.Errorf(
			"a host has a dot in its name or an address, as in %s=10.1.2.3; %q is no word for a registry, %s",
			entry, entry, suggest.Instead(entry, wordList()),
		)
	}
	address, err := netip.ParseAddr(name)
	if err == nil && (hasAddress || r.Below) {
		return r, fmt.Errorf("%q: an address stands alone", entry)
	}
	if err == nil {
		r.Within = []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}
	}
	return r, nil
}

func wordList() []string {
	var list []string
	for word := range words {
		list = append(list, word)
	}
	slices.Sort(list)
	return list
}

func isAddress(name string) bool {
	_, err := netip.ParseAddr(name)
	return err == nil
}

// parsePrefix reads an address or a network.
func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		prefix, err := netip.ParsePrefix(s)
		return prefix.Masked(), err
	}
	address, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	address = address.Unmap().WithZone("")
	return netip.PrefixFrom(address, address.BitLen()), nil
}

// splitPort takes the port off a host. The port is 0 if there is none.
func splitPort(place string) (host string, port uint16, err error) {
	if isAddress(strings.Trim(place, "[]")) {
		return strings.Trim(place, "[]"), 0, nil
	}
	at := strings.LastIndexByte(place, ':')
	if at < 0 {
		return place, 0, nil
	}
	port, err = Port(place[at+1:])
	if err != nil {
		return "", 0, err
	}
	host = place[:at]
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	return host, port, nil
}

// Port reads a port from 1 to 65535, written without sign and leading zeros.
func Port(s string) (uint16, error) {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || port == 0 || strconv.FormatUint(port, 10) != s {
		return 0, fmt.Errorf("%s is no port from 1 to 65535", text.Short(strconv.Quote(s), 20))
	}
	return uint16(port), nil
}

const (
	maxName  = 253 // bytes
	maxLabel = 63
)

// Name returns a host's name in lower case and without a last dot, and an address in its
// canonical form. It refuses all that resolvers read in different ways, such as 0x7f.1.
func Name(host string) (string, error) {
	address, err := netip.ParseAddr(host)
	if err == nil {
		if address.Zone() != "" {
			return "", fmt.Errorf("an address with a zone")
		}
		return address.Unmap().String(), nil
	}
	name := strings.TrimSuffix(host, ".")
	if name == "" || len(name) > maxName {
		return "", fmt.Errorf("a name has 1 to %d bytes", maxName)
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if label == "" || len(label) > maxLabel {
			return "", fmt.Errorf("each part of a name has 1 to %d bytes", maxLabel)
		}
		if strings.ContainsFunc(label, isOdd) {
			return "", fmt.Errorf("a name has letters, digits, - and _; other letters as in xn--mnchen-3ya.de")
		}
	}
	last := labels[len(labels)-1]
	if last[0] >= '0' && last[0] <= '9' {
		return "", fmt.Errorf("a name does not end like an address")
	}
	// Afterwards: to Unicode a Kelvin sign is a capital k.
	return strings.ToLower(name), nil
}

func isOdd(r rune) bool {
	plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
	return !plain
}

// Answer is what a list says about a host.
type Answer int

const (
	NotListed Answer = iota
	OtherPort        // the host is listed, and the port is not
	Listed
)

// Find returns the rule that allows a host, which [Name] has returned. usual is the port that
// needs no mention: 443, or 80 for plain HTTP. A rule for the host itself goes before rules
// for all below another.
func (l List) Find(host string, port, usual uint16) (Rule, Answer) {
	answer := NotListed
	var found Rule
	for _, r := range l.rules {
		if !r.matches(host) {
			continue
		}
		if r.Port != port && (r.Port != 0 || port != usual) {
			if answer == NotListed {
				answer = OtherPort
			}
			continue
		}
		if answer != Listed || r.closer(found) {
			found = r
		}
		answer = Listed
	}
	return found, answer
}

// closer reports whether a rule says more about a host than another one does.
func (r Rule) closer(than Rule) bool {
	if r.Below != than.Below {
		return than.Below
	}
	return len(r.Host) > len(than.Host)
}
