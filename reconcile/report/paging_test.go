package report_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// paging is how a host splits a list into pages.
type paging struct {
	// parameter is the number of a page, or of its first entry if fromZero.
	parameter string
	fromZero  bool
	// answer responds with a page. more reports whether there is another one, and next where that starts.
	answer func(w http.ResponseWriter, r *http.Request, items []string, more bool, next int)
}

// serve responds with the requested page of the items.
func (p paging) serve(w http.ResponseWriter, r *http.Request, items []string) {
	const perPage = 50
	from, err := strconv.Atoi(r.URL.Query().Get(p.parameter))
	if err != nil && r.URL.Query().Has(p.parameter) {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	next := from + perPage
	if !p.fromZero {
		from = max(from, 1)
		from, next = (from-1)*perPage, from+1
	}
	to := min(from+perPage, len(items))
	p.answer(w, r, items[min(from, to):to], to < len(items), next)
}

func byLink() paging {
	return paging{parameter: "page", answer: func(w http.ResponseWriter, r *http.Request, items []string, more bool, next int) {
		link := `<http://x>; rel="last"`
		if more {
			link = fmt.Sprintf(`<http://%s%s?page=%d>; rel="next", `, r.Host, r.URL.Path, next) + link
		}
		w.Header().Set("Link", link)
		_, _ = fmt.Fprint(w, "["+strings.Join(items, ",")+"]")
	}}
}

func values(items []string) string { return `"values": [` + strings.Join(items, ",") + `]` }

func byURL() paging {
	return paging{parameter: "page", answer: func(w http.ResponseWriter, r *http.Request, items []string, more bool, next int) {
		query := r.URL.Query()
		query.Set("page", strconv.Itoa(next))
		link := ""
		if more {
			link = fmt.Sprintf(`, "next": "http://%s%s?%s"`, r.Host, r.URL.Path, query.Encode())
		}
		_, _ = fmt.Fprintf(w, `{"pagelen": 50, "page": %d, %s%s}`, next-1, values(items), link)
	}}
}

func byStart() paging {
	return paging{parameter: "start", fromZero: true, answer: func(w http.ResponseWriter, _ *http.Request, items []string, more bool, next int) {
		start := "null"
		if more {
			start = strconv.Itoa(next)
		}
		_, _ = fmt.Fprintf(w, `{"size": %d, "limit": 50, "isLastPage": %t, %s, "start": %d, "nextPageStart": %s}`, len(items), !more, values(items), next-50, start)
	}}
}

func bySkip() paging {
	return paging{parameter: "$skip", fromZero: true, answer: func(w http.ResponseWriter, _ *http.Request, items []string, _ bool, _ int) {
		_, _ = fmt.Fprintf(w, `{"value": [%s], "count": %d}`, strings.Join(items, ","), len(items))
	}}
}

// askedWhole reports whether a request is for the full hash of a commit, and responds to it.
func askedWhole(w http.ResponseWriter, r *http.Request, heads int) bool {
	_, short, is := strings.Cut(r.URL.Path, "/2.0/repositories/acme/fleet/commit/")
	if !is {
		return false
	}
	for number := range heads + 1 {
		if whole := headOf(number); strings.HasPrefix(whole, short) {
			_ = json.NewEncoder(w).Encode(map[string]string{"type": "commit", "hash": whole})
			return true
		}
	}
	w.WriteHeader(http.StatusNotFound)
	return true
}
