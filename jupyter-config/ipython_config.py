# Loads perfmagic in every IPython shell and kernel of the profile this file is put into.
c = get_config()
c.InteractiveShellApp.extensions.append("perfmagic")
c.PerfmagicMagics.display = "auto"  # or widget, static, html; `%config PerfmagicMagics` lists the settings
