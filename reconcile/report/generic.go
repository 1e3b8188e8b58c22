package report

// generic posts signed JSON to any URL: manifests/SPEC.md documents the body and how to verify the signature.
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
