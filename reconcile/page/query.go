package page

import (
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation"
)

// query is what a request asks for.
type query struct {
	// nodeSync is the name of one; empty for the overview.
	nodeSync string
	// pool has ended nodes of it shown only; all has nothing left out; still has the page not
	// load itself again.
	pool       string
	all, still bool
}

// queryOf reads a request's. What it does not know it passes over, so that pages are few.
func queryOf(nodeSync string, values url.Values) query {
	q := query{nodeSync: nodeSync, all: values.Get("all") == "1", still: values.Get("refresh") == "off"}
	if pool := values.Get("pool"); nodeSync != "" && len(validation.IsDNS1123Subdomain(pool)) == 0 {
		q.pool = pool
	}
	return q
}

// address is where a query's page is.
func (q query) address() string {
	u := url.URL{Path: "/"}
	if q.nodeSync != "" {
		u.Path = "/nodesyncs/" + q.nodeSync
	}
	values := url.Values{}
	if q.pool != "" {
		values.Set("pool", q.pool)
	}
	if q.all {
		values.Set("all", "1")
	}
	if q.still {
		values.Set("refresh", "off")
	}
	u.RawQuery = values.Encode()
	return u.String()
}

// one is the page of a NodeSync, home the overview; both keep whether they load themselves again.
func (q query) one(name string) string { return query{nodeSync: name, still: q.still}.address() }
func (q query) home() string           { return query{still: q.still}.address() }

// changed is the same page otherwise.
func (q query) changed(change func(*query)) string {
	change(&q)
	return q.address()
}
