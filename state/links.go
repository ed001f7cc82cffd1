package state

import "github.com/symphony-cron/symphony/reconcile"

// linksText is how the links of a run are stored: JSON, empty where there are none.
func linksText(links []reconcile.Link) (string, error) {
	if len(links) == 0 {
		return "", nil
	}
	return toJSON(links)
}

// linksIn reads what linksText wrote.
type linksIn struct{ links *[]reconcile.Link }

// Scan implements sql.Scanner.
func (l linksIn) Scan(v any) error {
	if v == "" {
		*l.links = nil
		return nil
	}
	return jsonOf{l.links}.Scan(v)
}
