package source

import "time"

// Artifact is what Flux has fetched of a source.
type Artifact struct {
	// Of is the source: kind/namespace/name.
	Of string
	// URL is where source-controller serves it, and Digest that of its bytes: algorithm:hex.
	URL, Digest string
	// Revision in Flux's form: main@sha1:<commit>, latest@sha256:<digest>.
	Revision string
	// Updated is when Flux has made it.
	Updated time.Time
	// Before are artifacts that there were before, by their commits, and when Flux had made each, if that is known.
	Before map[string]time.Time
	// Asked is when the API server was asked for it, before it answered: what changes after that is not in it.
	Asked time.Time
	// Unready is why Flux has not made a newer one; nil if it would have.
	Unready error
}
