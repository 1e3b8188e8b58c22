package report

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// listing is a list of a host, which gives it page by page.
type listing[T any] struct {
	// first asks for the first page, and read reads one.
	first request
	read  func(body []byte) ([]T, error)
	// next asks for the page after one; false where that was the last. It is nil where one answer
	// has everything.
	next func(of request, a answer) (request, bool, error)
}

const (
	// maxListing bounds what is read of a page: GitHub takes some 25 KB for each pull request.
	maxListing = 8 << 20
	// mostPages is how many pages of one list are read.
	mostPages = 20
	// perPage is how many entries every host gives at a time.
	perPage = 50
)

var (
	errNoComment = errors.New("it names no comment")
	errElsewhere = errors.New("its next page is at another place")
	errNobody    = errors.New("it names no user")
)

// pages reads a list until there is no page more; with more there are some that are not read.
func pages[T any](ctx context.Context, p *poster, task Task, l listing[T]) (found []T, more bool, err error) {
	r := l.first
	for range mostPages {
		a, err := p.get(ctx, task, r)
		if err != nil {
			return nil, false, err
		}
		read, err := l.read(a.body)
		if err != nil {
			return nil, false, p.unreadable(task, err)
		}
		found = append(found, read...)
		if l.next == nil {
			return found, false, nil
		}
		next, more, err := l.next(r, a)
		if err != nil {
			return nil, false, p.unreadable(task, err)
		}
		if !more {
			return found, false, nil
		}
		r = next
	}
	return found, true, nil
}

// readAll reads a list of what a host has in another shape.
func readAll[T, As any](as func(T) As) func([]byte) ([]As, error) {
	return func(body []byte) ([]As, error) {
		var all []T
		err := json.Unmarshal(body, &all)
		return each(all, as), err
	}
}

// readValues is the same where the list is in a field of that name.
func readValues[T, As any](as func(T) As) func([]byte) ([]As, error) {
	return func(body []byte) ([]As, error) {
		var page struct {
			Values []T `json:"values"`
		}
		err := json.Unmarshal(body, &page)
		return each(page.Values, as), err
	}
}

func each[T, As any](all []T, as func(T) As) []As {
	found := make([]As, 0, len(all))
	for _, one := range all {
		found = append(found, as(one))
	}
	return found
}

// readOne reads one.
func readOne[T, As any](as func(T) As) func([]byte) (As, error) {
	return func(body []byte) (As, error) {
		var one T
		err := json.Unmarshal(body, &one)
		return as(one), err
	}
}

// withNumber is a request with a number in its query, such as that of a page.
func withNumber(r request, name string, number int) request {
	to, err := url.Parse(r.to)
	if err != nil { // it was made of escaped segments
		return r
	}
	query := to.Query()
	query.Set(name, strconv.Itoa(number))
	to.RawQuery = query.Encode()
	r.to = to.String()
	return r
}

// numberIn is a number in the query of a request.
func numberIn(r request, name string) int {
	to, err := url.Parse(r.to)
	if err != nil {
		return 0
	}
	number, _ := strconv.Atoi(to.Query().Get(name))
	return number
}

// nextByLink goes on at the next number while a header says that there is a next page.
// https://www.rfc-editor.org/rfc/rfc8288
func nextByLink(of request, a answer) (request, bool, error) {
	more := strings.Contains(strings.Join(a.header.Values("Link"), ","), `rel="next"`)
	return withNumber(of, "page", numberIn(of, "page")+1), more, nil
}

// nextByURL goes on where the body says, if that is on the same host: the token is sent there.
// https://developer.atlassian.com/cloud/bitbucket/rest/intro/#pagination
func nextByURL(of request, a answer) (request, bool, error) {
	var page struct {
		Next string `json:"next"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil || page.Next == "" {
		return request{}, false, err
	}
	from, err := url.Parse(of.to)
	if err != nil {
		return request{}, false, err
	}
	to, err := url.Parse(page.Next)
	if err != nil || to.Scheme != from.Scheme || to.Host != from.Host {
		return request{}, false, errElsewhere
	}
	of.to = page.Next
	return of, true, nil
}

// nextByStart goes on at the entry that the body names.
// https://developer.atlassian.com/server/bitbucket/rest/ (Paged APIs)
func nextByStart(of request, a answer) (request, bool, error) {
	var page struct {
		Last bool `json:"isLastPage"`
		Next *int `json:"nextPageStart"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil || page.Last || page.Next == nil {
		return request{}, false, err
	}
	return withNumber(of, "start", *page.Next), true, nil
}

// nextBySkip passes over what was read, while pages are full.
// https://learn.microsoft.com/rest/api/azure/devops/git/pull-requests/get-pull-requests
func nextBySkip(of request, a answer) (request, bool, error) {
	var page struct {
		Value []json.RawMessage `json:"value"`
	}
	err := json.Unmarshal(a.body, &page)
	return withNumber(of, "$skip", numberIn(of, "$skip")+len(page.Value)), len(page.Value) >= perPage, err
}
