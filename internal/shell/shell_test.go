package shell_test

import (
	"os/exec"
	"testing"

	"github.com/plumbline-dev/plumbline/internal/shell"
)

// TestWord asks a shell what it makes of each word.
func TestWord(t *testing.T) {
	for _, text := range []string{
		"nodes", "team/nodes", "", "a b", "x; echo y", "$(echo y)", "`echo y`", "it's", `a"b\c`, "~", "*", "# no", "x{a,b}", "-n", "a\nb", "é", "!x", "&", "\x1b[8m",
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shell.Word(text)).Output()
		if err != nil || string(out) != text && text != "-n" {
			t.Errorf("%q became %q, %v", text, out, err)
		}
	}
	if got := shell.Word("arn:aws:iam::111122223333:role/a+b=c,@d_e.f-g"); got != "arn:aws:iam::111122223333:role/a+b=c,@d_e.f-g" {
		t.Errorf("quoted for nothing: %s", got)
	}
}
