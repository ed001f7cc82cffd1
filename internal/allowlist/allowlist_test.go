package allowlist

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestParse(t *testing.T) {
	for entry, want := range map[string]string{
		"github.com":                   "",
		"GitHub.com.":                  "",
		"*.example.com":                "",
		"example.com:8443":             "",
		"npm":                          "",
		"nexus=10.1.2.3":               "",
		"nexus.corp:8081=10.1.2.3":     "",
		"*.corp=10.0.0.0/8":            "",
		"10.1.2.3:8081":                "",
		"[fd00::1]:8081":               "",
		"fd00::1":                      "",
		"db=fd00::/8":                  "",
		"":                             "1 to 253 bytes",
		"*":                            "agent.network: true",
		"*:443":                        "agent.network: true",
		"8080":                         "write HOST:8080",
		":8080":                        "write HOST:8080",
		"git@github.com:acme/app":      "write its host, github.com",
		"https://example.com:8443/x":   "is a URL: write its host, example.com:8443",
		"npm, pypi":                    "write each as an item of its own",
		"*.com":                        "would allow too many hosts",
		"pypy":                         `did you mean "pypi"?`,
		"localhost":                    "no word for a registry",
		"https://github.com":           "is a URL: write its host, github.com",
		"10.0.0.0/8":                   "is a range of addresses: write each host",
		"github.com/symphony":          "has a path, and a host is allowed as a whole: write github.com",
		"github.com:0":                 "is no port",
		"github.com:+1":                "is no port",
		"github.com:65536":             "is no port",
		"git*.example.com":             "stands only for all hosts below one",
		"münchen.de":                   "xn--",
		"a..b":                         "each part",
		strings.Repeat("a", 64) + ".b": "each part",
		"127.1":                        "does not end like an address",
		"0x7f.0.0.1":                   "does not end like an address",
		"nexus.corp=ten":               "is no address such as 10.1.2.3",
		"10.1.2.3=10.1.2.3":            "an address stands alone",
		"*.10.1.2.3":                   "an address stands alone",
		"fe80::1%eth0":                 "zone",
	} {
		_, err := Parse([]string{entry})
		if want == "" {
			test.OK(t, err)
			continue
		}
		if err == nil {
			t.Errorf("%q was accepted", entry)
			continue
		}
		test.Contains(t, "the error of "+entry, err.Error(), want)
	}
}

func TestFind(t *testing.T) {
	l, err := Parse([]string{
		"github.com", "*.example.com", "port.example.com:8443", "npm",
		"*.corp.example=10.0.0.0/8", "git.corp.example=10.1.2.3", "10.9.9.9:8081",
	})
	test.OK(t, err)
	for _, c := range []struct {
		host   string
		port   uint16
		answer Answer
		within string
	}{
		{"github.com", 443, Listed, ""},
		{"github.com", 80, OtherPort, ""},
		{"gist.github.com", 443, NotListed, ""},
		{"notgithub.com", 443, NotListed, ""},
		{"a.b.example.com", 443, Listed, ""},
		{"example.com", 443, NotListed, ""},
		{"port.example.com", 8443, Listed, ""},
		{"port.example.com", 443, Listed, ""}, // by *.example.com
		{"registry.npmjs.org", 443, Listed, ""},
		{"git.corp.example", 443, Listed, "10.1.2.3/32"},
		{"wiki.corp.example", 443, Listed, "10.0.0.0/8"},
		{"10.9.9.9", 8081, Listed, "10.9.9.9/32"},
		{"10.9.9.9", 443, OtherPort, ""},
	} {
		rule, answer := l.Find(c.host, c.port, 443)
		test.Equal(t, "the answer about "+c.host, answer, c.answer)
		if c.within != "" {
			test.Equal(t, "the addresses of "+c.host, rule.Within[0].String(), c.within)
		}
	}
}

func TestIsPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"93.184.216.34":        true,
		"2606:2800:220:1::1":   true,
		"64:ff9b::5db8:d822":   true, // 93.184.216.34
		"::ffff:93.184.216.34": true,
		"0.0.0.0":              false,
		"10.0.0.1":             false,
		"100.100.100.200":      false,
		"127.0.0.1":            false,
		"127.255.0.9":          false,
		"169.254.169.254":      false,
		"172.31.255.255":       false,
		"192.168.1.1":          false,
		"224.0.0.251":          false,
		"255.255.255.255":      false,
		"::":                   false,
		"::1":                  false,
		"::ffff:127.0.0.1":     false,
		"::127.0.0.1":          false,
		"64:ff9b::7f00:1":      false,
		"64:ff9b:1::a00:1":     false,
		"2001::1":              false, // Teredo
		"2002:7f00:1::":        false, // 6to4 of 127.0.0.1
		"fc00::1":              false,
		"fd00:ec2::254":        false,
		"fe80::1":              false,
		"fec0::1":              false,
		"ff02::1":              false,
	} {
		test.Equal(t, address+" is public", IsPublic(netip.MustParseAddr(address)), want)
	}
	test.Equal(t, "no address is public", IsPublic(netip.Addr{}), false)
}

// TestWords checks that each word stands for hosts that a list may name.
func TestWords(t *testing.T) {
	for word, hosts := range words {
		_, err := Parse(append([]string{word}, hosts...))
		test.OK(t, err)
	}
}

// FuzzName: a name is the same however often it is read, and means one host to all resolvers.
func FuzzName(f *testing.F) {
	for _, host := range []string{
		"GitHub.com.", "[::1]", "::ffff:127.0.0.1", "xn--mnchen-3ya.de", "0x7f.1", "a..b", "\u212a.com",
	} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, err := Name(host)
		if err != nil {
			return
		}
		again, err := Name(name)
		test.OK(t, err)
		test.Equal(t, "read again", again, name)
		if name == "" || len(name) > maxName || name != strings.ToLower(name) || strings.ContainsAny(name, "%/@ []\\\x00") {
			t.Errorf("%q became %q", host, name)
		}
	})
}
