package linear

import "github.com/symphony-cron/symphony/reconcile"

// Adapter returns Linear as the rest of the program uses it. It sends nothing.
func Adapter(o Options) (*reconcile.TrackerAdapter, error) {
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	return &reconcile.TrackerAdapter{
		Tracker: c, Name: "Linear",
		Find: c.ByIdentifier, Comments: c.Comments, Verify: c.Verify, Budget: c.Budget,
		Tool:    Tool(c, o.ReadOnly),
		Secrets: []string{c.key},
	}, nil
}
