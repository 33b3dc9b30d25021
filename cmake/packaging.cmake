# What `make install` and the .deb hold. The libraries go to a folder of their own: they carry the
# names of the system's libibverbs and must never replace it by being installed.
set(private_folder lib/verbena)
install(TARGETS verbena RUNTIME DESTINATION bin)
install(TARGETS verbena-shim verbena-audit verbena-sockets LIBRARY DESTINATION ${private_folder})
install(TARGETS verbena-broker RUNTIME DESTINATION ${private_folder})
foreach(library ibverbs rdmacm)
  if(TARGET ${library})
    set_target_properties(${library} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${library} LIBRARY DESTINATION ${private_folder})
  endif()
endforeach()
install(FILES docs/verbena.1 DESTINATION share/man/man1)
install(FILES scripts/verbena.bash-completion DESTINATION share/bash-completion/completions
        RENAME verbena)
install(FILES README.md LICENSE DESTINATION share/doc/verbena)
install(DIRECTORY docs DESTINATION share/doc/verbena
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png")
install(DIRECTORY examples scenarios DESTINATION share/doc/verbena)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME verbena)
set(CPACK_PACKAGE_VENDOR Verbena)
set(CPACK_PACKAGE_CONTACT "The Verbena authors <verbena@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "RDMA without the hardware: RoCE v2 in user space")
set(CPACK_PACKAGE_DESCRIPTION
    "Runs unmodified RDMA programs (perftest, ibv_*_pingpong, qperf, pyverbs, your own) on any
Linux machine or container, without an RDMA adapter, a kernel module, root or a daemon. A drop-in
libibverbs carries verbs over RoCE v2 (UDP port 4791); processes of one host talk through shared
memory. The command verbena runs programs, lists devices, shows counters and explains errors.")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "perftest, ibverbs-utils")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36), libisal2")
include(CPack)
