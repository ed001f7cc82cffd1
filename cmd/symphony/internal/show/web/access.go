package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/detail"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/eventlog"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/exit"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/internal/text"
	"github.com/symphony-cron/symphony/reconcile"
	"github.com/symphony-cron/symphony/runner/agent"
)

// Token is the secret by which the server knows an operator. It is kept in memory only: a file
// that an agent can read would let it approve its own requests.
type Token string

// NewToken makes a token.
func NewToken() Token {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return Token(base64.RawURLEncoding.EncodeToString(secret))
}

// The length of a token of the operator's own, and the characters that it may have: a cookie
// and a header can contain them.
const (
	shortestToken   = 16
	longestToken    = 1024
	tokenCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-./_=~"
)

// ReadToken reads a token of the operator's own, from a file that no other account can read.
func ReadToken(path string) (Token, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", exit.Usage("serve: --token-file: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", exit.Usage("serve: --token-file: %v", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", exit.Usage("serve: other accounts can read %s: chmod 600 %s", path, text.ShellQuote(path))
	}
	token := strings.TrimSpace(string(data))
	if len(token) < shortestToken {
		return "", exit.Usage("serve: the token in %s is shorter than %d characters", path, shortestToken)
	}
	if len(token) > longestToken || strings.Trim(token, tokenCharacters) != "" {
		return "", exit.Usage(
			"serve: the token in %s must have at most %d characters, which are letters, digits or one of +-./_=~",
			path,
			longestToken,
		)
	}
	return Token(token), nil
}

// Format implements fmt.Formatter without the token.
func (Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// access decides which requests are answered.
type access struct {
	token  [sha256.Size]byte // its hash, so that a comparison takes the same time for all guesses
	code   Token             // of the printed link
	used   *atomic.Bool      // the link was opened
	public bool              // other machines can reach the server: reading needs the token, too
	own    bool              // only this account can reach the server, by a socket
	// names in the Host header, without ports; beside them names below localhost
	hosts  []string
	open   []string // the names among hosts by which other machines reach the server
	port   string   // empty for a socket
	cross  *http.CrossOriginProtection
	cookie string
}

func newAccess(address net.Addr, o Options) access {
	a := access{
		token: sha256.Sum256([]byte(o.Token)),
		code:  NewToken(),
		used:  new(atomic.Bool),
		cross: http.NewCrossOriginProtection(),
	}
	a.hosts = []string{"localhost", "127.0.0.1", "::1"}
	for _, name := range o.Hosts {
		a.hosts = append(a.hosts, hostName(name))
	}
	a.public = len(o.Hosts) > 0 // a proxy or a tunnel leads here
	tcp, isTCP := address.(*net.TCPAddr)
	if !isTCP {
		a.cookie = "symphony"
		a.own = !a.public
		return a
	}
	a.public = a.public || !tcp.IP.IsLoopback()
	a.port = fmt.Sprint(tcp.Port)
	a.cookie = "symphony_" + a.port // browsers do not separate cookies by port
	a.hosts = append(a.hosts, tcp.IP.String(), strings.ToLower(o.host()))
	if !tcp.IP.IsLoopback() {
		a.open = reachable(tcp.IP)
		a.hosts = append(a.hosts, a.open...)
	}
	return a
}

// csp lets a page load nothing but this server's own files, and be part of no other page.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// guard refuses requests with a foreign Host, which a page of another site sends after DNS
// rebinding, and requests from a page of another origin. It sets the headers of every answer.
func (a *access) guard(next http.Handler, s *Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !a.isCalled(r.Host) {
			s.fail(w, r, reconcile.NewError(
				"host_refused",
				fmt.Sprintf("this server is not called %q", r.Host),
				"add the name with --allow-host",
			))
			return
		}
		checked := r
		// The check is for each request that is not the click on a link: streams for pages of
		// other sites would leave none for others.
		mode := r.Header.Get("Sec-Fetch-Mode")
		isClick := mode == "" || mode == "navigate"
		if !isClick {
			checked = r.WithContext(r.Context())
			checked.Method = http.MethodPost
		}
		if a.cross.Check(checked) != nil {
			s.fail(w, r, reconcile.NewError(
				"origin_refused",
				"the request comes from a page of another site",
				"use the pages of this server",
			))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isCalled reports whether the Host header names this server. Its port may belong to a tunnel
// or a proxy, but is a number. After DNS rebinding the header contains a name, so any address
// belongs to this machine, or to a program that forwards to it.
func (a *access) isCalled(host string) bool {
	name := hostName(host)
	_, port, _ := net.SplitHostPort(host) // empty without a port
	if port != "" && !text.IsNumber(port) {
		return false
	}
	if slices.Contains(a.hosts, name) || strings.HasSuffix(name, ".localhost") {
		return true
	}
	return len(a.open) > 0 && net.ParseIP(name) != nil
}

// permit refuses a request without the token that it needs. It also refuses a wrong token where
// none is needed: who sends one counts on being known.
func (a *access) permit(r *http.Request, n need) error {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	isWrong := strings.EqualFold(scheme, "Bearer") && !a.mayAct(r)
	switch {
	case n == needNothing:
		return nil
	case isWrong:
		return notTheToken()
	case n == needReading && !a.public:
		return nil
	case n == needDetails && a.own:
		return nil
	case a.mayAct(r):
		return nil
	}
	return reconcile.NewError(
		"unauthorized",
		"this needs the token of the server",
		"log in with the link or the token that symphony has printed, or send Authorization: Bearer TOKEN",
	)
}

// notTheToken is the error for a token that is not accepted.
func notTheToken() error {
	return reconcile.NewError(
		"unauthorized",
		"this is not the token of the server, which each start prints, or which is in its --token-file",
		"send Authorization: Bearer TOKEN",
	)
}

// mayAct reports whether the request carries the token.
func (a *access) mayAct(r *http.Request) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		return a.isToken(strings.TrimLeft(given, " "))
	}
	c, err := r.Cookie(a.cookie)
	return err == nil && a.isToken(c.Value)
}

func (a *access) isToken(given string) bool {
	hash := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(hash[:], a.token[:]) == 1
}

// isCode reports whether a token is the one of the printed link.
func (a *access) isCode(given string) bool {
	hash := sha256.Sum256([]byte(given))
	code := sha256.Sum256([]byte(a.code))
	return subtle.ConstantTimeCompare(hash[:], code[:]) == 1
}

// useCode reports whether the printed link is opened for the first time. It works once,
// because browsers keep the addresses that were opened in files, which an agent may be able to
// read.
func (a *access) useCode(given string) bool {
	return a.isCode(given) && a.used.CompareAndSwap(false, true)
}

// withhold removes from an issue the parts that the request may not read.
func (a *access) withhold(r *http.Request, v *detail.Issue) {
	if a.permit(r, needDetails) != nil {
		v.Log = []eventlog.Line{}
		v.HookFailures = []detail.HookFailure{}
		v.RefusedHosts = []agent.RefusedHost{}
		v.Issue.Description = nil
		v.Tracked.Description = nil
	}
	a.withholdChanges(r, v.Requests)
}

// withholdChanges removes from requests of agents the lines of files that the request may not
// read.
func (a *access) withholdChanges(r *http.Request, rows []view.RequestRow) {
	if a.permit(r, needDetails) == nil {
		return
	}
	for _, row := range rows {
		for _, changes := range [][]reconcile.RequestChange{row.Detail.Changes, row.Request.Detail.Changes} {
			for i := range changes {
				changes[i].Diff = ""
			}
		}
	}
}

// reachable lists the addresses and names of this machine by which other machines reach a
// server that listens at the address. The address from which this machine reaches others comes
// first.
func reachable(at net.IP) (hosts []string) {
	all, _ := net.InterfaceAddrs() // the names remain
	for _, one := range all {
		ip := one.(*net.IPNet).IP
		isAny := at.IsUnspecified() && ip.IsGlobalUnicast() && (ip.To4() != nil || at.To4() == nil)
		if ip.Equal(at) || isAny {
			hosts = append(hosts, ip.String())
		}
	}
	if i := slices.Index(hosts, ownAddress()); i > 0 {
		hosts[0], hosts[i] = hosts[i], hosts[0]
	}
	name, err := os.Hostname()
	if err != nil {
		return hosts
	}
	name = strings.ToLower(name)
	short, _, _ := strings.Cut(name, ".")
	return text.Unique(append(hosts, name, short, short+".local"))
}

// ownAddress returns the address from which this machine reaches others; empty if it is not
// known.
func ownAddress() string {
	// nothing is sent
	c, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9})
	if err != nil {
		return ""
	}
	defer func() { _ = c.Close() }()
	from, _, _ := net.SplitHostPort(c.LocalAddr().String())
	return from
}

// hostName is the name in a Host header or an address, without the port and in lower case.
func hostName(address string) string {
	name, _, err := net.SplitHostPort(address)
	if err != nil { // without a port
		name = address
	}
	return strings.ToLower(strings.Trim(name, "[]"))
}

// keptFor is how long a browser keeps the token and the theme, in seconds.
const keptFor = 180 * 24 * 3600

// setCookie lets the browser keep a value for age seconds, out of reach of scripts and of
// requests that other sites cause. With the age -1 the browser removes it.
func setCookie(w http.ResponseWriter, name, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name:     name,
		Value:    value,
		Path:     "/",
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		MaxAge:   age,
	})
}
