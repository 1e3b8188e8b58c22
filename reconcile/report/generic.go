package report

// generic posts to any URL, as JSON that is signed: manifests/SPEC.md has the shape of
// the body, and how the signature is checked.
func generic() adapter {
	return adapter{
		credentials: signature,
		status: func(r repository, s Status) request {
			return request{to: r.url, body: genericStatus{
				Commit: s.Commit, Context: s.Context, State: s.State, Description: Truncate(s.Description), TargetURL: s.TargetURL,
			}}
		},
	}
}

// genericStatus is the body of a generic webhook.
type genericStatus struct {
	Commit      string `json:"commit"`
	Context     string `json:"context"`
	State       State  `json:"state"`
	Description string `json:"description"`
	TargetURL   string `json:"targetURL,omitempty"`
}
