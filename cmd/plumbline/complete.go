package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// Shell completion.

// completeNodeSyncs completes the names of NodeSyncs, up to the number that a command takes.
func completeNodeSyncs(kubeconfig *genericclioptions.ConfigFlags, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		list, err := listNodeSyncs(cmd, kubeconfig, false, nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for i := range list.Items {
			if name := list.Items[i].Name; !slices.Contains(args, name) {
				names = append(names, name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completePools completes the names of the NodePools that pools returns for the arguments.
func completePools(
	kubeconfig *genericclioptions.ConfigFlags, pools func(context.Context, *clusterAccess, []string) ([]string, error),
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names, err := pools(cmd.Context(), c, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFolders completes folders, in addition to names.
func completeFolders(names cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, _ := names(cmd, args, typed)
		below, _ := filepath.Glob(typed + "*") // an invalid pattern matches nothing
		for _, path := range below {
			if info, err := os.Stat(path); err == nil && info.IsDir() && filepath.Base(path)[0] != '.' {
				found = append(found, path+"/")
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// onlyFolders completes one folder.
func onlyFolders(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// completeKubeconfig completes the values of kubectl's flags.
func completeKubeconfig(root *cobra.Command, kubeconfig *genericclioptions.ConfigFlags) {
	for name, complete := range map[string]func(context.Context) ([]string, error){
		"namespace": func(ctx context.Context) (names []string, err error) {
			c, err := connect(ctx, kubeconfig)
			if err != nil {
				return nil, err
			}
			list := &corev1.NamespaceList{}
			err = c.List(ctx, list)
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			return names, err
		},
		"context": func(context.Context) ([]string, error) {
			config, err := kubeconfig.ToRawKubeConfigLoader().RawConfig()
			return slices.Sorted(maps.Keys(config.Contexts)), err
		},
		"cluster": func(context.Context) ([]string, error) {
			config, err := kubeconfig.ToRawKubeConfigLoader().RawConfig()
			return slices.Sorted(maps.Keys(config.Clusters)), err
		},
		"user": func(context.Context) ([]string, error) {
			config, err := kubeconfig.ToRawKubeConfigLoader().RawConfig()
			return slices.Sorted(maps.Keys(config.AuthInfos)), err
		},
	} {
		// The flags exist: kubeconfig has added them.
		_ = root.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			found, err := complete(cmd.Context())
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		})
	}
}

//go:generate go run . reference markdown ../../docs/reference/cli

// newReferenceCommand returns a hidden command, for developers of plumbline, that writes the reference of all commands.
func newReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "reference markdown|man FOLDER",
		Short:     "Write the reference of all commands into a folder, as Markdown or as man pages",
		Hidden:    true,
		Args:      cobra.MatchAll(cobra.ExactArgs(2), func(_ *cobra.Command, args []string) error { return knownForm(args[0]) }),
		ValidArgs: []cobra.Completion{"markdown", "man"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[1], 0o755); err != nil {
				return err
			}
			return writeReference(cmd.Root(), args[0], args[1])
		},
	}
}

func knownForm(form string) error {
	if form != "markdown" && form != "man" {
		return fmt.Errorf("reference in the form %q: want markdown or man", form)
	}
	return nil
}

// writeReference writes a page for each command. Only the root command's page documents kubectl's flags.
func writeReference(root *cobra.Command, form, folder string) error {
	root.DisableAutoGenTag = true
	root.InitDefaultVersionFlag()
	withoutThisMachine(root)
	if err := writePage(root, form, folder); err != nil {
		return err
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	return eachSubcommand(root, func(cmd *cobra.Command) error { return writePage(cmd, form, folder) })
}

// eachSubcommand calls each for the subcommands that help lists.
func eachSubcommand(parent *cobra.Command, each func(*cobra.Command) error) error {
	for _, cmd := range parent.Commands() {
		if !cmd.IsAvailableCommand() || cmd.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := each(cmd); err != nil {
			return err
		}
		if err := eachSubcommand(cmd, each); err != nil {
			return err
		}
	}
	return nil
}

// withoutThisMachine removes this machine's folders from the defaults of flags.
func withoutThisMachine(root *cobra.Command) {
	_ = eachSubcommand(root, func(cmd *cobra.Command) error {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			f.DefValue = strings.Replace(f.DefValue, strings.TrimSuffix(os.TempDir(), "/"), "$TMPDIR", 1)
		})
		return nil
	})
}

func writePage(cmd *cobra.Command, form, folder string) error {
	var page bytes.Buffer
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "_") + ".md"
	var err error
	if form == "man" {
		name = strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		err = doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Source: "plumbline " + version, Manual: "plumbline"}, &page)
	} else {
		err = doc.GenMarkdown(cmd, &page)
	}
	if err != nil {
		return fmt.Errorf("write the reference of %s: %w", cmd.CommandPath(), err)
	}
	return os.WriteFile(filepath.Join(folder, name), page.Bytes(), 0o644)
}
