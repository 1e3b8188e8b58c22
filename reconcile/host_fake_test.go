package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// fakeHosts are Git hosts that note what is posted, or fail.
type fakeHosts struct {
	err    error
	posted []post
	token  string
}

// post is one commit status on one host.
type post struct {
	to, repository string
	status         report.Status
}

func (f *fakeHosts) Host(to v1alpha1.Report, repository string, secret map[string][]byte) (report.Poster, error) {
	f.token = string(secret["token"])
	return fakeHost{hosts: f, to: to.Provider, repository: repository}, nil
}

type fakeHost struct {
	hosts          *fakeHosts
	to, repository string
}

func (f fakeHost) Post(_ context.Context, s report.Status) error {
	f.hosts.posted = append(f.hosts.posted, post{to: f.to, repository: f.repository, status: s})
	return f.hosts.err
}
