package page

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/redact"
)

var (
	update = flag.Bool("update", false, "write the goldens")
	whole  = flag.String("pages", "", "write the whole pages to a folder, to be looked at")
)

// rendered returns the page of a query.
func rendered(t *testing.T, w *World, q query) string {
	t.Helper()
	writer, err := newWriter("fleet", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	page, err := writer.page(w, q)
	if err != nil || page.status != http.StatusOK {
		t.Fatalf("status %d, %v", page.status, err)
	}
	return string(page.html)
}

// body returns a page without the parts common to all pages.
func body(html string) string {
	_, after, _ := strings.Cut(html, "<body>")
	return after
}

func TestGoldens(t *testing.T) {
	pages := map[string]string{}
	for name, w := range worlds() {
		pages[name] = rendered(t, w, query{nodeSync: "prod"})
	}
	fleet := worldOf(nodeSyncWith("prod"), nodeSyncWith("test"))
	for _, name := range []string{"held", "removing", "rolling-out", "stalled", "drift"} {
		sync := worlds()[name].NodeSyncs[0]
		sync.Name = name
		fleet.NodeSyncs = append(fleet.NodeSyncs, sync)
	}
	pages["overview"], pages["overview-none"] = rendered(t, fleet, query{}), rendered(t, worldOf(), query{still: true})
	pages["of-one-pool"] = rendered(t, worlds()["in-sync"], query{nodeSync: "prod", pool: "spot", still: true})
	for name, html := range pages {
		if *whole != "" {
			if err := os.WriteFile(filepath.Join(*whole, name+".html"), []byte(html), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(file, []byte(body(html)), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), body(html)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestItSaysWhatTheCommandSays: each fact of `plumbline status` is on the page.
func TestItSaysWhatTheCommandSays(t *testing.T) {
	for name, w := range worlds() {
		if name == "hostile" {
			continue // it is escaped
		}
		text := textOf(t, rendered(t, w, query{nodeSync: "prod"}))
		status := summary.Of(&w.NodeSyncs[0])
		for _, line := range status.Lines() {
			if !strings.Contains(text, line.Text) {
				t.Errorf("%s does not say %q", name, line.Text)
			}
		}
		for _, words := range []string{status.State, status.Message} {
			if !strings.Contains(text, words) {
				t.Errorf("%s does not say %q", name, words)
			}
		}
	}
}

// TestManyPools: those that matter come first, and a link shows the others.
func TestManyPools(t *testing.T) {
	few, all := rendered(t, worlds()["many"], query{nodeSync: "prod"}), rendered(t, worlds()["many"], query{nodeSync: "prod", all: true})
	first, second := strings.Index(few, ">pool-499<"), strings.Index(few, ">pool-300<")
	if third := strings.Index(few, ">pool-000<"); first < 0 || second < first || third < second {
		t.Errorf("not Ready at %d, draining at %d, another at %d", first, second, third)
	}
	if n := strings.Count(few, ">pool-"); n != maxRows || !strings.Contains(few, `and 450 more: 0 not Ready, 9,000 nodes, 0 draining: <a href="/nodesyncs/prod?all=1">`) {
		t.Errorf("%d pools of 500", n)
	}
	if n := strings.Count(all, ">pool-"); n != 500 || len(few) > 64<<10 {
		t.Errorf("%d pools of 500; the short page has %d bytes", n, len(few))
	}
}

// TestHostileWords: what other people wrote is shown as text, and nothing in it is invisible.
func TestHostileWords(t *testing.T) {
	for _, q := range []query{{nodeSync: "prod"}, {}, {nodeSync: "prod", all: true}} {
		html := rendered(t, worlds()["hostile"], q)
		if strings.Contains(html, "<script") || strings.Contains(html, "<img") || strings.ContainsAny(html, "\x1b\u202e\u200b\x00") || !redact.IsVisible(html) {
			t.Errorf("%+v has it as it is", q)
		}
		if !strings.Contains(html, `\u202e`) || !strings.Contains(html, `&lt;script&gt;`) {
			t.Errorf("%+v does not show it", q)
		}
	}
}
