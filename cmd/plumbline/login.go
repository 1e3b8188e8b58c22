package main

import (
	"context"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// loginStore takes charts with what the NodeSync has for their host, as far as the user may
// read that, and otherwise with the credentials of docker login.
type loginStore struct {
	*charts.Store
	login charts.Keys
}

// newLoginStore keeps charts in a folder.
func newLoginStore(ctx context.Context, dir string) (*loginStore, error) {
	login, err := dockerLogin(nil)
	if err != nil {
		return nil, err
	}
	return &loginStore{Store: charts.NewStore(charts.StoreOptions{Dir: dir, Confine: confined(ctx)}), login: login}, nil
}

// Resolve is the Store's.
func (s *loginStore) Resolve(ctx context.Context, ref charts.Ref, access charts.Access) (*charts.Charts, error) {
	return s.Store.Resolve(ctx, ref, s.with(access))
}

// Verify is the Store's.
func (s *loginStore) Verify(ctx context.Context, ref charts.Ref, c *charts.Charts, access charts.Access, by charts.Signers) error {
	return s.Store.Verify(ctx, ref, c, s.with(access), by)
}

func (s *loginStore) with(access charts.Access) charts.Access {
	declared := access.Keys
	access.Keys = func(ctx context.Context, host string) (charts.Credentials, error) {
		found, err := declared(ctx, host)
		if err == nil && (found.Password != "" || len(found.CA) > 0) {
			return found, nil
		}
		return s.login(ctx, host)
	}
	return access
}
