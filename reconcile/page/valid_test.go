package page

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// void are the elements without an end tag (HTML, section 13.1.2).
var void = []string{"meta", "link", "br", "img", "input"}

// textOf returns the visible text of a page.
func textOf(t *testing.T, page string) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" {
			text.WriteString(n.Data)
		}
	}
	return text.String()
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// TestBalanced: each start tag has its end tag, in the reverse order.
func TestBalanced(t *testing.T) {
	for name, w := range worlds() {
		for _, q := range []query{{nodeSync: "prod"}, {}} {
			tokens, open := html.NewTokenizer(strings.NewReader(rendered(t, w, q))), []string{}
			for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
				tag, _ := tokens.TagName()
				switch {
				case kind == html.StartTagToken && !slices.Contains(void, string(tag)):
					open = append(open, string(tag))
				case kind == html.EndTagToken:
					if len(open) == 0 || open[len(open)-1] != string(tag) {
						t.Fatalf("%s: </%s> within %v", name, tag, open)
					}
					open = open[:len(open)-1]
				}
			}
			if len(open) > 0 {
				t.Errorf("%s: %v do not end", name, open)
			}
		}
	}
}

// TestAccessible: landmarks, one first-level heading and no skipped level, captions, scopes, and unique IDs that exist;
// no script, no event handler, no external resource.
func TestAccessible(t *testing.T) {
	for name, w := range worlds() {
		for _, q := range []query{{nodeSync: "prod"}, {}} {
			page := rendered(t, w, q)
			root, err := html.Parse(strings.NewReader(page))
			if err != nil {
				t.Fatal(err)
			}
			count, ids, level := map[string]int{}, map[string]int{}, 0
			var refers []string
			for n := range root.Descendants() {
				if n.Type != html.ElementNode {
					continue
				}
				count[n.Data]++
				if id := attribute(n, "id"); id != "" {
					ids[id]++
				}
				for _, a := range n.Attr {
					if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" {
						t.Errorf("%s: %s has %s", name, n.Data, a.Key)
					}
				}
				refers = append(refers, strings.TrimPrefix(attribute(n, "aria-labelledby"), "#"))
				switch n.Data {
				case "a":
					if to := attribute(n, "href"); strings.HasPrefix(to, "#") {
						refers = append(refers, to[1:])
					} else if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") {
						t.Errorf("%s: a link to %q", name, to)
					}
				case "th":
					if attribute(n, "scope") == "" {
						t.Errorf("%s: a th without scope", name)
					}
				case "table":
					if first := n.FirstChild.NextSibling; first == nil || first.Data != "caption" {
						t.Errorf("%s: a table without a caption", name)
					}
				case "h1", "h2", "h3":
					if now := int(n.Data[1] - '0'); now > level+1 {
						t.Errorf("%s: h%d after h%d", name, now, level)
					} else {
						level = now
					}
				}
			}
			for _, landmark := range []string{"header", "nav", "main", "footer", "h1", "title"} {
				if count[landmark] != 1 {
					t.Errorf("%s: %d of %s", name, count[landmark], landmark)
				}
			}
			for _, to := range refers {
				if to != "" && ids[to] != 1 {
					t.Errorf("%s: %d elements are #%s", name, ids[to], to)
				}
			}
			if count["script"]+count["iframe"]+count["form"]+count["link"] > 0 {
				t.Errorf("%s: %v", name, count)
			}
			if !bytes.HasPrefix([]byte(page), []byte("<!DOCTYPE html>\n<html lang=\"en\">")) {
				t.Errorf("%s begins with %.40q", name, page)
			}
		}
	}
}
