package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"

	"github.com/plumbline-dev/plumbline/redact"
)

//go:embed templates
var files embed.FS

// writer makes HTML of views.
type writer struct {
	style     template.CSS
	namespace string
	version   string
	pages     map[string]*template.Template
}

// written is an answer.
type written struct {
	status int
	html   []byte
}

// notice is a page that says one thing.
type notice struct{ Heading, Text, Command string }

func newWriter(namespace, version string) (*writer, error) {
	style, err := files.ReadFile("templates/style.css")
	if err != nil {
		return nil, fmt.Errorf("read the style of pages: %w", err)
	}
	w := &writer{style: template.CSS(style), namespace: namespace, version: version, pages: map[string]*template.Template{}}
	for _, name := range []string{"overview", "nodesync", "notice"} {
		if w.pages[name], err = template.ParseFS(files, "templates/layout.html", "templates/"+name+".html"); err != nil {
			return nil, fmt.Errorf("read the template of pages: %w", err)
		}
	}
	return w, nil
}

// styleHash is by what the browser knows the only style that may be used.
func (w *writer) styleHash() string {
	sum := sha256.Sum256([]byte(w.style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// page makes the one that is asked for.
func (w *writer) page(world *World, q query) (written, error) {
	v := view{Title: "plumbline", Home: q.home(), Here: q.nodeSync, At: when{Words: world.Now.UTC().Format("15:04:05") + " UTC", Exact: world.Now.UTC().Format("2006-01-02T15:04:05Z")}}
	v.Toggle = q.changed(func(q *query) { q.still = !q.still })
	if !q.still {
		v.Refresh = refreshes
	}
	if q.nodeSync == "" {
		v.Body = overviewOf(world, q)
		return w.write("overview", http.StatusOK, v)
	}
	sync := world.nodeSync(q.nodeSync)
	if sync == nil {
		v.Toggle, v.Title = "", "No NodeSync "+q.nodeSync
		v.Body = notice{Heading: "No NodeSync " + q.nodeSync, Text: "There is none of this name in namespace " + w.namespace + ". The others are on the first page."}
		return w.write("notice", http.StatusNotFound, v)
	}
	shown := nodeSyncOf(world, q, sync)
	v.Title, v.Body = sync.Name+": "+shown.State.Words, shown
	return w.write("nodesync", http.StatusOK, v)
}

// notice makes a page that says one thing, and loads itself again where that may change.
func (w *writer) notice(status int, n notice) (written, error) {
	v := view{Title: n.Heading, Home: query{}.home(), Here: n.Heading, Body: n}
	if status == http.StatusServiceUnavailable {
		v.Refresh = refreshes
	}
	return w.write("notice", status, v)
}

func (w *writer) write(name string, status int, v view) (written, error) {
	v.Style, v.Namespace, v.Version = w.style, w.namespace, w.version
	var out bytes.Buffer
	if err := w.pages[name].ExecuteTemplate(&out, "layout", v); err != nil {
		return written{}, fmt.Errorf("write the page %s: %w", name, err)
	}
	// What other people wrote must not read as something else here either.
	return written{status, []byte(redact.Visible(out.String()))}, nil
}
