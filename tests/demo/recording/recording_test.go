package recording_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/demo/recording"
)

// TestCast checks what asciinema reads: a header, and what is shown when.
func TestCast(t *testing.T) {
	var out strings.Builder
	now := time.Unix(100, 0)
	cast, err := recording.NewCast(&out, "a story", 100, 30, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one\n", "\x1b[32mtwo\x1b[0m\r\n"} {
		now = now.Add(1500 * time.Millisecond)
		if n, err := io.WriteString(cast, text); err != nil || n != len(text) {
			t.Errorf("%d bytes of %q: %v", n, text, err)
		}
	}
	header, events, _ := strings.Cut(out.String(), "\n")
	var fields map[string]any
	if err := json.Unmarshal([]byte(header), &fields); err != nil || fields["version"] != 2.0 || fields["width"] != 100.0 || fields["height"] != 30.0 {
		t.Errorf("header %s: %v", header, err)
	}
	want := "[1.500, \"o\", \"one\\r\\n\"]\n[3.000, \"o\", \"\\u001b[32mtwo\\u001b[0m\\r\\n\"]\n"
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestSVG: text has its position and its colours, and is otherwise escaped.
func TestSVG(t *testing.T) {
	svg, err := recording.SVG("a <title>", "a\x1b[31m<b>\x1b[0m   c d  é\r\n\n"+strings.Repeat("x", 25)+"\n", 10)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "text" {
			var text struct {
				X    string `xml:"x,attr"`
				Y    string `xml:"y,attr"`
				Fill string `xml:"fill,attr"`
				Text string `xml:",chardata"`
			}
			if err := decoder.DecodeElement(&text, &start); err != nil {
				t.Fatal(err)
			}
			texts = append(texts, fmt.Sprint(text.X, ",", text.Y, " ", text.Fill, " ", text.Text))
		}
	}
	want := []string{"16.0,30  a", "24.4,30 #ff7b72 <b>", "74.8,30  c d", "116.8,30  é", "16.0,68  xxxxxxxxxx", "16.0,87  xxxxxxxxxx", "16.0,106  xxxxx"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	if _, err := recording.SVG("", "a\x1b[2Kb", 10); err == nil {
		t.Error("a text that moves the cursor becomes a picture")
	}
}

// TestWhatTheDocumentsShow: it is small, complete, and contains nothing of a particular machine.
func TestWhatTheDocumentsShow(t *testing.T) {
	names, err := filepath.Glob("../../../docs/recordings/*")
	if err != nil || len(names) < 5 {
		t.Fatalf("%d recordings: %v", len(names), err)
	}
	ofAMachine := regexp.MustCompile(`127\.0\.0\.1|localhost|/tmp|/root|/home/|/Users/`)
	size := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		size += len(text)
		if found := ofAMachine.Find(text); found != nil {
			t.Errorf("%s has %q: make recordings", name, found)
		}
		switch filepath.Ext(name) {
		case ".svg":
			err = xml.Unmarshal(text, new(struct{}))
		case ".cast":
			for line := range strings.Lines(string(text)) {
				if err = json.Unmarshal([]byte(line), new(any)); err != nil {
					break
				}
			}
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if size > 300_000 {
		t.Errorf("they have %d bytes", size)
	}
}
