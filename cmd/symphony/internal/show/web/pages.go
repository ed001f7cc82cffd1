package web

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/symphony-cron/symphony/cmd/symphony/internal/act/agents"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/read/view"
	"github.com/symphony-cron/symphony/cmd/symphony/internal/show/web/page"
	"github.com/symphony-cron/symphony/reconcile"
)

// drawPage draws the page of an address from the read model, and names the files that change
// when it does.
type drawPage func(*http.Request) (p page.Page, files []string, err error)

// page answers with a page, or with its stream if the client asks for events.
func (s *Server) page(draw drawPage) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Add("Vary", "Accept")
		if r.Method == http.MethodGet && r.Header.Get("Accept") == "text/event-stream" {
			return s.follow(w, r, func(ctx context.Context) (event, []string) {
				return s.pageEvent(r.WithContext(ctx), draw)
			})
		}
		p, _, err := draw(r)
		if err != nil {
			return err
		}
		p.Live = true
		s.addAlerts(r, &p)
		s.write(w, r, http.StatusOK, p)
		return nil
	}
}

// loginPath is the address of the printed link, with the code as its query.
const loginPath = "/login"

// write answers with a page.
func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, p page.Page) {
	p.MayAct = s.access.mayAct(r)
	p.Path = r.URL.RequestURI()
	if r.URL.Path == loginPath { // its query contains the code of the link
		p.Path = loginPath
	}
	p.At = s.source.env.Now()
	p.Theme = theme(r)
	p.Notice = s.actions().notice(w, r)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(p.Document()) // the client is gone
}

// addAlerts adds the alerts of all projects, unless the page contains them already. Projects
// that can't be read have none: the overview tells of it.
func (s *Server) addAlerts(r *http.Request, p *page.Page) {
	if p.Alerts != nil {
		return
	}
	all, err := s.source.overviews(r.Context(), "", view.Options{Alerts: true})
	if err != nil {
		return
	}
	asked, err := agents.OpenRequests(r.Context(), s.source.env)
	if err != nil {
		return
	}
	p.Alerts = page.NewAlerts(all, asked, r.URL.RequestURI(), s.access.mayAct(r))
	p.Requests = p.Alerts.Requests
}

// overviewPage draws /: all projects.
func (s *Server) overviewPage(r *http.Request) (p page.Page, files []string, err error) {
	choice := page.NewChoice(r.URL.Query())
	all, err := s.overviews(r, choice.Options())
	if err != nil {
		return p, nil, err
	}
	isChosen := func(v view.Overview) bool { return v.Project.Name == choice.Project }
	if choice.Project != "" && !slices.ContainsFunc(all, isChosen) { // such as of an old bookmark
		_, err := s.source.named(r.Context(), choice.Project)
		return p, nil, err
	}
	for _, v := range all {
		files = append(files, filesOf(v.Project)...)
	}
	asked, err := agents.OpenRequests(r.Context(), s.source.env)
	if err != nil {
		return p, nil, snapshotError(err)
	}
	s.access.withholdChanges(r, asked)
	if theirs := agents.AsProject(s.source.env); theirs != nil {
		files = append(files, filesOf(view.ProjectRow{StateDir: theirs.StateDir})...)
	}
	return page.Overview{
		Projects: all,
		Agents:   asked,
		Choice:   choice,
		MayAct:   s.access.mayAct(r),
	}.Page(), files, nil
}

// overviews reads all projects, without the parts that the reader may not see.
func (s *Server) overviews(r *http.Request, o view.Options) ([]view.Overview, error) {
	all, err := s.source.overviews(r.Context(), "", o)
	for _, v := range all {
		s.access.withholdChanges(r, v.Requests)
	}
	return all, err
}

// loginPage answers GET /login: with the code of the printed link it lets the browser keep the
// token; without a code it asks for the token. A program that previews the link does not use
// it up.
func (s *Server) loginPage(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	if !q.Has("token") || !isVisit(r) {
		s.write(w, r, http.StatusOK, page.Login())
		return nil
	}
	if s.access.mayAct(r) { // the link is opened again
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return nil
	}
	if !s.access.useCode(q.Get("token")) {
		return reconcile.NewError(
			"unauthorized",
			"this link is of another start of the server, or was opened before",
			"enter the token that symphony has printed at "+loginPath,
		)
	}
	s.keepToken(w, r)
	return nil
}

// isVisit reports whether a browser opens the address as a page. All send either of these
// headers then, the first only to addresses of this machine and over HTTPS.
func isVisit(r *http.Request) bool {
	isNavigation := r.Header.Get("Sec-Fetch-Mode") == "navigate" || r.Header.Get("Upgrade-Insecure-Requests") != ""
	return r.Method == http.MethodGet && isNavigation
}

// login answers POST /login.
func (s *Server) login(w http.ResponseWriter, r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return badBody(err)
	}
	if !s.access.isToken(r.PostFormValue("token")) {
		return notTheToken()
	}
	s.keepToken(w, r)
	return nil
}

// keepToken lets the browser keep the token, and opens the overview.
func (s *Server) keepToken(w http.ResponseWriter, r *http.Request) {
	setCookie(w, s.access.cookie, string(s.token), keptFor)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// setTheme answers POST /theme and returns to the page.
func setTheme(w http.ResponseWriter, r *http.Request) error {
	chosen := r.PostFormValue("theme")
	age := keptFor
	if !slices.Contains(themes, chosen) {
		chosen = ""
		age = -1
	}
	setCookie(w, "theme", chosen, age)
	http.Redirect(w, r, backTo(r), http.StatusSeeOther)
	return nil
}

// themes can be chosen beside the theme of the system.
var themes = []string{"light", "dark"}

// theme is the theme that the reader chose.
func theme(r *http.Request) string {
	c, err := r.Cookie("theme")
	if err != nil || !slices.Contains(themes, c.Value) {
		return ""
	}
	return c.Value
}

// backTo is the page of this server whose form was sent.
func backTo(r *http.Request) string {
	u, err := url.Parse(r.PostFormValue("back"))
	if err != nil || u.IsAbs() || u.Host != "" {
		return "/"
	}
	isPath := strings.HasPrefix(u.Path, "/") && !strings.HasPrefix(u.Path, "//")
	if !isPath || strings.Contains(u.Path, `\`) {
		return "/"
	}
	return u.RequestURI()
}

// serveAsset answers GET /assets/{name}: the style and the scripts of the pages.
func serveAsset(w http.ResponseWriter, r *http.Request) error {
	if !slices.Contains(page.AssetNames(), r.PathValue("name")) {
		return reconcile.NewError("not_found", "there is no "+r.URL.Path, "")
	}
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", "W/"+page.AssetTag()) // of the asset, compressed or not
	http.ServeFileFS(w, r, page.Assets(), r.PathValue("name"))
	return nil
}

// serveFavicon answers GET /favicon.ico, which browsers ask for beside answers that are no
// pages.
func serveFavicon(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = io.WriteString(w, page.Page{}.Picture()) // the client is gone
	return nil
}
