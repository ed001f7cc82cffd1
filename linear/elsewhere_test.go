package linear_test

import "testing"

func TestIssueInAnotherProject(t *testing.T) {
	for slug, elsewhere := range map[string]bool{"demo": false, "other": true} {
		c := answering(t, 200, `{"data":{"issues":{"nodes":[`+`{"id":"i1","identifier":"ABC-1","title":"T","state":{"name":"Todo"},"project":{"slugId":"`+slug+`"}}`+`]}}}`)
		got, err := c.ByIDs(t.Context(), []string{"i1"})
		if err != nil {
			t.Fatal(err)
		}
		if got["i1"].Elsewhere != elsewhere {
			t.Errorf("project %s: elsewhere %v", slug, got["i1"].Elsewhere)
		}
	}
}
