package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// What a shell completes.

// completeNodeSyncs completes the names of NodeSyncs in a shell, as many as a command takes.
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

// completePools completes the names of some NodePools, which depend on the arguments.
func completePools(kubeconfig *genericclioptions.ConfigFlags, pools func(context.Context, *cluster, []string) ([]string, error)) cobra.CompletionFunc {
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

// completeFolders completes folders, beside what else is completed.
func completeFolders(names cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found, _ := names(cmd, args, typed)
		below, _ := filepath.Glob(typed + "*") // a pattern that is none finds nothing
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
