package stories_test

import (
	"errors"
	"fmt"
	"os/exec"

	"filippo.io/age"
	"github.com/rogpeppe/go-internal/testscript"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const sopsUsage = "usage: sops key NAME SECRET, sops encrypt NAME FILE"

// sopsCommand implements sopsUsage.
func (s *story) sopsCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errors.New(sopsUsage)
	}
	switch args[0] {
	case "key":
		return s.sopsKey(args[1], args[2])
	case "encrypt":
		return s.sopsEncrypt(args[1], ts.MkAbs(args[2]))
	}
	return errors.New(sopsUsage)
}

// sopsKey makes a key of age, and the Secret that holds it.
func (s *story) sopsKey(name, secret string) error {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		return fmt.Errorf("make a key of age: %w", err)
	}
	if s.ageKeys == nil {
		s.ageKeys = map[string]*age.X25519Identity{}
	}
	s.ageKeys[name] = key
	manifest, err := sigsyaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]any{"name": secret, "namespace": daemon.Namespace},
		"stringData": map[string]string{name + ".agekey": key.String() + "\n"},
	})
	if err != nil {
		return fmt.Errorf("write the Secret's manifest: %w", err)
	}
	return s.apply(manifest)
}

// sopsEncrypt encrypts all values of a file in place with the real program, which gets nothing of the machine's environment.
func (s *story) sopsEncrypt(name, file string) error {
	key := s.ageKeys[name]
	if key == nil {
		return fmt.Errorf("there is no key %s", name)
	}
	builder, err := binaries.Here(s.t.Output())
	if err != nil {
		return err
	}
	built, err := builder.Build(s.ctx, binaries.SOPS)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(s.ctx, built[binaries.SOPS], "encrypt", "--age", key.Recipient().String(), "--in-place", file)
	cmd.Env = []string{"HOME=" + s.dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sops encrypt: %w: %s", err, out)
	}
	return nil
}
