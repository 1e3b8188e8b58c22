package main

import (
	"testing"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/grant"
)

// TestSecretsForAnyHostAreAskedFor: without the flag a Secret that names no host goes to none.
func TestSecretsForAnyHostAreAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		sent bool
	}{
		"by default":    {nil, false},
		"with the flag": {[]string{"--secrets-for-any-host"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &runOptions{}
			flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
			o.bind(flags)
			if err := flags.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			secret := &metav1.ObjectMeta{Namespace: "plumbline-system", Name: "token"}
			err := o.grants().Check(secret, grant.Use{NodeSync: "prod", Address: "https://git.example.com"})
			if (err == nil) != c.sent {
				t.Errorf("it is sent: %v", err)
			}
		})
	}
}
