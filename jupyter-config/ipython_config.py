# Loads perfmagic in every IPython shell and kernel of the profile this file is put into.
c = get_config()
c.InteractiveShellApp.extensions.append("perfmagic")
