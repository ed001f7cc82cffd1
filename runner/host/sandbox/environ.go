package sandbox

import (
	"slices"
	"strings"
)

// proxyVariables lead programs in the sandbox to the proxy. Node has obeyed them since version
// 24, and only with NODE_USE_ENV_PROXY.
var proxyVariables = []string{
	"HTTP_PROXY=http://" + ProxyAddress,
	"HTTPS_PROXY=http://" + ProxyAddress,
	"http_proxy=http://" + ProxyAddress,
	"https_proxy=http://" + ProxyAddress,
	"NO_PROXY=localhost,127.0.0.1,::1",
	"no_proxy=localhost,127.0.0.1,::1",
	"NODE_USE_ENV_PROXY=1",
}

// otherProxies are variables that would lead programs past the proxy, to one that does not
// exist inside.
var otherProxies = []string{"ALL_PROXY", "all_proxy", "FTP_PROXY", "ftp_proxy"}

// ModelURL is the base URL at which an agent in the sandbox reaches its model without a key: the
// proxy adds it. ModelURL("claude") is http://127.0.0.1:3128/model/claude.
func ModelURL(kind string) string { return "http://" + ProxyAddress + "/model/" + kind }

// Environ returns the environment of the command in a box, given the one that it would have
// outside. Start bubblewrap with it: an argument such as --setenv would show keys to everyone
// on the machine.
func (b Box) Environ(outside []string) []string {
	if b.Network != OwnNetwork || b.Socket == "" {
		return slices.Clone(outside)
	}
	inside := slices.DeleteFunc(slices.Clone(outside), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		ours := slices.ContainsFunc(proxyVariables, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		return ours || slices.Contains(otherProxies, name)
	})
	return append(inside, proxyVariables...)
}
