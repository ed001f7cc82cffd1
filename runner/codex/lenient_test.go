package codex

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"
)

// What lenient reads is what encoding/json reads, wherever every member is of the type of its field.
func TestLenient(t *testing.T) {
	for _, raw := range []string{
		`{}`,
		"\t{ \"method\" : \"a\" ,\r\n \"id\" : 1 , \"params\" : { \"a\" : [ 1 , { } ] } } ",
		`{"method":"a\u0000\"\\b","id":"x","result":null,"error":{"code":-1,"message":"m","data":{"a":1}}}`,
		`{"m\u0065thod":"escaped","id":-1.5e3,"params":[[["}"]],"]"]}`,
		`{"method":"first","method":"second","params":{"a":"\\"},"params":true}`,
		"{\"method\":\"\xff\",\"\xff\":1,\"id\":0}",
	} {
		var got, want message
		lenient([]byte(raw), &got)
		if err := json.Unmarshal([]byte(raw), &want); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v and not\n%+v", raw, got, want)
		}
	}
}

// A member of another type is left empty, at any depth, and what it stands beside is read.
func TestLenientOtherTypes(t *testing.T) {
	var p params
	lenient([]byte(`{"delta":7,"turnId":"t","turn":"text","willRetry":"yes","item":{"type":[],"id":"i","exitCode":"x","changes":
		[{"path":1,"diff":"d"}]},"threadId":null,"plan":{},"questions":[{"id":"q","isOther":3,"header":"h"}],"error":false}`), &p)
	if p.Delta != "" || p.TurnIDNow != "t" || p.Turn.ID != "" || p.WillRetry || p.Item.Type != "" || p.Item.ID != "i" || p.ThreadIDNow != "" {
		t.Errorf("%+v", p)
	}
	if len(p.Item.Changes) != 1 || p.Item.Changes[0].Diff != "d" || len(p.Questions) != 1 || p.Questions[0].Header != "h" {
		t.Errorf("%+v", p)
	}
}

// Where a member has both its name of today and a former one, today's counts, wherever it stands.
func TestLenientNames(t *testing.T) {
	for raw, want := range map[string]string{
		`{"thread_id":"old","threadId":"new"}`:           "new",
		`{"threadId":"new","thread_id":"old"}`:           "new",
		`{"thread_id":"old"}`:                            "old",
		`{"thread_id":"old","thread__id":"older"}`:       "older",
		`{"threadId":null,"thread_id":"old"}`:            "",
		`{"thread_id":"old","threadId":7}`:               "",
		`{"thread_id":"old","threadId":""}`:              "",
		`{"thread_id":"old","thread\u0049d":"new"}`:      "new",
		`{"thread_i\u0064":"old","turn_id":"x"}`:         "old",
		`{"_thread_id":"no","threadid":"no","t_h":"no"}`: "",
	} {
		var p params
		if lenient([]byte(raw), &p); p.ThreadIDNow != want {
			t.Errorf("%s: %q, want %q", raw, p.ThreadIDNow, want)
		}
	}
}

// The members of any JSON are those that encoding/json finds, and of what is no JSON some, without end or harm.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"b":[{"c":"]}"}],"d":"\\\""}`, " { \"a\" :\t{ } , \"a\":null\n}", `{"\u0061":"b"}`, `["a"]`, `{"a"`, `{"a":`, `{"a":"`, `{"a":[`, `{"a":1,`, `{,}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := make(map[string]string)
		for name, value := range members(raw) {
			got[string(name)] = string(value)
		}
		var decoded map[string]json.RawMessage
		if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &decoded) != nil {
			return
		}
		want := make(map[string]string)
		for name, value := range decoded {
			want[name] = string(value)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%q and not %q", got, want)
		}
	})
}
