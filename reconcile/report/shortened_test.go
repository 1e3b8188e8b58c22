package report

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// TestShortened: the result is JSON of the same shape, wherever the input is split and a string is cut.
func TestShortened(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"short","b":[1,"",null]}`:        `{"a":"short","b":[1,"",null]}`,
		`["12345678901234567890",{"b":"x"}]`:   `["12345678",{"b":"x"}]`,
		`["1234567\"890","\\","a"]`:            `["1234567\"","\\","a"]`,
		`["123456\u00e9890\\","\"","a"]`:       `["123456\u00e9","\"","a"]`,
		`["12345678\"\\\u00e9" , "\u00e9abc"]`: `["12345678" , "\u00e9ab"]`,
	} {
		for name, from := range map[string]io.Reader{"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
			got, err := io.ReadAll(&shortened{from: from, most: 8})
			if err != nil || string(got) != want || !json.Valid(got) {
				t.Errorf("%s: %s is %s, want %s (%v)", name, in, got, want, err)
			}
		}
	}
}

// TestLongDescriptionsHideNoPullRequest: long descriptions do not prevent other pull requests from being listed.
func TestLongDescriptionsHideNoPullRequest(t *testing.T) {
	for provider, c := range map[string]struct {
		n           int
		field, body string
	}{
		"gitlab": {49, "description", strings.Repeat("x", 1<<20)},
		"gitea":  {1, "body", strings.Repeat("\"\\", 8<<20)},
		"github": {49, "body", strings.Repeat("界", 65536)},
	} {
		t.Run(provider, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				side := func(id int, ref string) map[string]any {
					return map[string]any{"ref": ref, "sha": strings.Repeat("a", 40), "label": ref, "repo": map[string]any{"id": id}}
				}
				var all []map[string]any
				for i := range c.n + 1 {
					one := map[string]any{"iid": i + 1, "number": i + 1, "sha": strings.Repeat("b", 40), "target_branch": "main", "source_project_id": 1, "target_project_id": 1, "head": side(1, "fix"), "base": side(1, "main")}
					if i < c.n {
						one[c.field] = c.body
					}
					all = append(all, one)
				}
				_ = json.NewEncoder(w).Encode(all)
			}))
			defer server.Close()
			reviewer, err := (&Hosts{Now: time.Now}).Reviewer(provider, server.URL+"/acme/fleet", map[string][]byte{"token": []byte("abcdefghijkl")}, false)
			if err != nil {
				t.Fatal(err)
			}
			open, more, err := reviewer.PullRequests(t.Context(), "main")
			if err != nil || len(open) != c.n+1 || more {
				t.Errorf("%d listed, more %t: %v", len(open), more, err)
			}
		})
	}
}
