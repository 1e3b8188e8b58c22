package page

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// takesFocus reports whether the Tab key reaches an element, in document order (HTML, section 6.6.3).
func takesFocus(n *html.Node) bool {
	switch {
	case attribute(n, "tabindex") == "0":
		return true
	case n.Data == "a":
		return attribute(n, "href") != ""
	}
	return slices.Contains([]string{"summary", "button", "input", "select", "textarea"}, n.Data)
}

// TestKeyboard: the Tab key reaches everything that a pointer does, in reading order, starting with the link that skips
// the header. Scrollable elements can be focused, and have a name.
func TestKeyboard(t *testing.T) {
	for name, w := range worlds() {
		for _, q := range []query{{nodeSync: "prod"}, {}, {nodeSync: "prod", pool: "spot"}} {
			root, err := html.Parse(strings.NewReader(rendered(t, w, q)))
			if err != nil {
				t.Fatal(err)
			}
			var reached []*html.Node
			for n := range root.Descendants() {
				if n.Type != html.ElementNode {
					continue
				}
				if index := attribute(n, "tabindex"); index != "" && index != "0" {
					t.Errorf("%s: %s has tabindex %s", name, n.Data, index)
				}
				if takesFocus(n) {
					reached = append(reached, n)
				} else if n.Data == "a" || attribute(n, "class") == "scroll" {
					t.Errorf("%s: the Tab key does not reach a %s: %v", name, n.Data, n.Attr)
				}
				if attribute(n, "class") == "scroll" && (attribute(n, "role") != "region" || attribute(n, "aria-labelledby") == "") {
					t.Errorf("%s: what scrolls has no role or no name: %v", name, n.Attr)
				}
				for above := range n.Ancestors() {
					if takesFocus(n) && (attribute(above, "aria-hidden") == "true" || attribute(above, "hidden") != "") {
						t.Errorf("%s: a %s in what is hidden takes the focus", name, n.Data)
					}
				}
			}
			if len(reached) == 0 || attribute(reached[0], "class") != "skip" || attribute(reached[0], "href") != "#main" {
				t.Errorf("%s: the link past the head is not first", name)
			}
		}
	}
}

// TestFocusIsSeen: a rule outlines the focused element, none removes an outline, and the link that skips the header is
// visible while it has the focus.
func TestFocusIsSeen(t *testing.T) {
	style, err := files.ReadFile("templates/style.css")
	if err != nil {
		t.Fatal(err)
	}
	for what, pattern := range map[string]string{
		"whatever has the focus": `(?m)^:focus-visible \{[^}]*outline: [1-9]\d*px solid `,
		"the link past the head": `(?m)^\.skip:focus \{[^}]*left: [0-9.]+rem`,
	} {
		if !regexp.MustCompile(pattern).Match(style) {
			t.Errorf("no rule shows %s", what)
		}
	}
	if gone := regexp.MustCompile(`outline(-width|-style)?: *(0|none)`).Find(style); gone != nil {
		t.Errorf("a rule has %q", gone)
	}
}
