package sshname

import (
	"testing"

	"github.com/symphony-cron/symphony/internal/test"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]string{
		"gpu1":                    "gpu1",
		"ann@gpu1":                "ann@gpu1",
		"ann@gpu1:2222":           "ann@gpu1 2222",
		"10.0.0.7:22":             "10.0.0.7 22",
		"::1":                     "::1",
		"[::1]":                   "::1",
		"ann@[fe80::1%eth0]:2222": "ann@fe80::1%eth0 2222",
		"":                        "",
		"-oProxyCommand=x":        "",
		"ann@-x":                  "",
		"@gpu1":                   "",
		"gpu1:":                   "",
		"gpu1:0":                  "",
		"gpu1:70000":              "",
		"gpu1:ssh":                "",
		"gpu 1":                   "",
		"gpu1\n":                  "",
		"$(x)":                    "",
		"a;b":                     "",
		"[::1":                    "",
		"ann@":                    "",
		":22":                     "",
	} {
		h, err := Parse(name)
		got := h.Destination
		if h.Port != "" {
			got += " " + h.Port
		}
		if err != nil {
			got = ""
		}
		test.Equal(t, name, got, want)
	}
}

// What a person types has the port as ssh takes it.
func TestCommand(t *testing.T) {
	for name, want := range map[string]string{
		"gpu1":          "ssh gpu1",
		"ann@gpu1:2222": "ssh -p 2222 ann@gpu1",
	} {
		test.Equal(t, name, test.Must(Parse(name)).Command(), want)
	}
}
