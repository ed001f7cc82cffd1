package allowlist

import (
	"net/netip"
	"slices"
)

// notPublic are the networks whose addresses mean something else on each network, or nothing.
var notPublic = prefixes(
	"0.0.0.0/8",       // this host
	"10.0.0.0/8",      // private
	"100.64.0.0/10",   // shared: providers, and clouds for their metadata
	"127.0.0.0/8",     // loopback
	"169.254.0.0/16",  // link-local, and clouds for their metadata
	"172.16.0.0/12",   // private
	"192.0.0.0/24",    // protocols
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // relays to IPv6
	"192.168.0.0/16",  // private
	"198.18.0.0/15",   // measurements
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/3",     // multicast, reserved, broadcast
	"2001::/23",       // protocols, with tunnels to any IPv4 address
	"2001:db8::/32",   // documentation
	"2002::/16",       // tunnels to any IPv4 address
	"3fff::/20",       // documentation
)

var (
	// internet has all IPv6 addresses that are given out.
	internet = netip.MustParsePrefix("2000::/3")
	// translated has the IPv4 addresses, in the last four bytes, of networks without IPv4.
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(list ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range list {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}

// IsPublic reports whether an address is one of the internet: the same host from everywhere,
// and not this machine's or its network's.
func IsPublic(address netip.Addr) bool {
	address = address.Unmap()
	if translated.Contains(address) {
		bytes := address.As16()
		return IsPublic(netip.AddrFrom4([4]byte(bytes[12:])))
	}
	if !address.IsValid() || address.Zone() != "" || address.Is6() && !internet.Contains(address) {
		return false
	}
	return !slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(address) })
}
